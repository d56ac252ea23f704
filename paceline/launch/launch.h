// launch: starts the ranks of a run, prints what they write, and ends them together. docs/launch.md is for users.
//
// One rank's death ends the others: the store tells them why, they have `grace_ms` to end by themselves, then SIGTERM,
// then SIGKILL; with the times below within 2 s. One thread beside the store's; between events it sleeps.
//
// With `restarts` failures are mended (RestartRule says which). Whether the others can go on without the one that
// failed is seen at the store: where no rank has come to it they are on their own, and only that one is started again.
// Where one has, they form a group, which is broken: they are ended as above, and then all start again, as a new
// generation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace paceline {

struct LaunchOptions {
  int ranks = 0;               // 0: as `hosts` says
  std::string hosts;           // "a:4,b:4"; empty: this one
  std::string rsh;             // the command that runs programs on other hosts; empty: ssh
  std::string remote_program;  // paceline on the other hosts; empty: where it is here
  std::string engine;          // empty: the ranks choose. mpi and shm+mpi are started by mpirun
  std::string address;         // of this host, as the others reach it; empty: found out
  double timeout_s = 0;        // of every wait of the ranks; 0: not said
  bool prefixes = true;
  bool first_rank_has_the_terminal = false;  // a local rank 0 writes to it directly: a progress bar works
  bool ranks_stop_on_usr1 = false;  // as `paceline train`: mpirun passes SIGUSR1 on, but kills on SIGINT and SIGTERM
  int restarts = 0;                 // of each rank, and of all together
  std::vector<std::string> command;

  int64_t hello_ms = 20'000;         // for another host to answer
  int64_t grace_ms = 1'000;          // after a rank's death, for the others to end by themselves
  int64_t term_ms = 500;             // between SIGTERM and SIGKILL
  int64_t stop_ms = 10'000;          // after Ctrl-C or SIGTERM, for ranks to end
  int64_t restart_pause_ms = 1'000;  // before a rank is started again
};

// Returns the exit code: 0 when all ranks exited with 0; that of the rank that failed first (128 + signal); 128 +
// signal of a Ctrl-C or SIGTERM. Throws UsageError (options, no such program) and PeerError (a host cannot be reached)
// when nothing could be started. Call it from the main thread, before others are started.
int launch(const LaunchOptions& options);

}  // namespace paceline
