// HostRanks: the ranks of one host as a launcher sees them, whether they are its own children or an agent's.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/launch/line_process.h"

namespace paceline {

struct RankOrder {
  int rank = 0;
  std::vector<std::string> environment;  // NAME=value; holds the secret: not to be printed
};

struct JobOrder {
  std::vector<std::string> command;
  std::string folder;  // to run in, where that is not this process's own
  std::vector<RankOrder> ranks;
  bool more = false;  // others may be started later, until release()
};

// Called from the turns of a PollLoop.
struct RankEvents {
  static constexpr int kAll = -1;  // the program that starts all ranks itself, as mpirun does

  std::function<void(int rank, Stream stream, std::string_view line)> line;
  std::function<void(int rank, const Ending& ending)> ended;
  std::function<void(const std::string& from, std::string_view line)> note;  // what ssh or mpirun itself says
};

class HostRanks {
 public:
  virtual ~HostRanks() = default;  // whoever is left is killed

  virtual bool ready() const = 0;               // to start
  virtual void start(const JobOrder& job) = 0;  // again, for ranks that have ended
  virtual void signal(int signal) = 0;  // to the process groups of all its ranks; SIGKILL: nothing is started any more
  virtual void kill_ranks() { signal(SIGKILL); }  // ... unless the job may have more
  virtual void release() {}                       // nothing will be started any more
  virtual void pause(bool paused) = 0;            // take no more lines for now
  virtual bool gone() const = 0;                  // nothing runs: all have ended, or none was started
};

}  // namespace paceline
