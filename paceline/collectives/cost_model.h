// What an all-reduce costs: steps, bytes and seconds as functions of ranks, bytes and links (the α-β model, with γ for
// the additions). Pure; the same for predictions, for the planner and for `paceline explain`.
//
// Two levels: ranks of one host talk over the node link, hosts over the network link that the ranks of a host share.
// Ranks of a host are taken to be consecutive. Each algorithm's own function lies beside it (ring_cost in ring.h).
#pragma once

#include <cstdint>
#include <string>

namespace paceline {

struct Link {
  double alpha_s = 0;          // latency of a message
  double beta_s_per_byte = 0;  // of one rank (node) or of one host (network: its ranks share it)
};

// X the row length, rank = y * X + x, so that rows hold whole hosts.
struct Grid {
  int x = 1;
  int y = 1;
  bool operator==(const Grid&) const = default;
};
std::string to_text(Grid grid);                       // "8x4"
Grid parse_grid(const std::string& text, int ranks);  // throws UsageError: not XxY, or not that many ranks
// The most square one, its rows of whole hosts where hosts have equally many ranks: 12 -> 4x3, 7 -> 7x1, 6 on hosts of
// 2 -> 2x3. `ranks_per_host` 0: hosts differ.
Grid choose_grid(int ranks, int ranks_per_host);

struct Cluster {
  std::string name;  // for people: "abci", "shm on this machine"
  int ranks = 1;
  int hosts = 1;
  int ranks_per_host = 1;          // of the largest host
  bool shared_memory = false;      // ranks of a host read each other's buffers
  bool native_all_reduce = false;  // the engine has one of its own
  Link node;
  Link network;
  double meeting_s = 0;         // in shared memory, until all ranks of a host are there
  double gamma_s_per_byte = 0;  // to add one byte of one buffer to another

  bool hosts_are_equal() const { return hosts * ranks_per_host == ranks; }
  Grid default_grid() const { return choose_grid(ranks, hosts_are_equal() ? ranks_per_host : 0); }
};

struct Cost {
  int64_t steps = 0;          // messages that one rank sends one after the other
  double bytes_per_rank = 0;  // sent by the busiest rank
  double network_bytes_per_host = 0;
  double seconds = 0;
};
// One after the other.
Cost operator+(const Cost& first, const Cost& second);
Cost operator*(int times, const Cost& cost);

// The cluster as some of its ranks see it: `ranks` of them, `ranks_per_host` on each host, while `sharing` such parts
// use a host's network link at the same time (each gets its share; network_bytes_per_host counts one part's).
Cluster part_of(const Cluster& cluster, int ranks, int ranks_per_host, int sharing);

// Every rank sends `bytes` to a peer and receives as many, and `crossing` ranks of each host have their peer on
// another.
double message_seconds(const Cluster& cluster, double bytes, int crossing);

int floor_log2(int number);  // REQUIRES: number >= 1

// No all-reduce of `bytes` can be faster on this cluster: with L ranks on each of h hosts, 2n(L-1)/L go through a
// rank's node link, 2n(h-1)/h through a host's network link.
double bound_seconds(const Cluster& cluster, double bytes);

}  // namespace paceline
