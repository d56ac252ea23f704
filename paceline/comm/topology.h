// Topology: which ranks of a group share a host.
#pragma once

#include <string>
#include <vector>

namespace paceline {

class Topology {
 public:
  Topology() = default;  // of no ranks
  // Hosts are numbered in the order of their first rank.
  explicit Topology(const std::vector<std::string>& host_identity_of_rank);
  static Topology one_host(int ranks);

  int ranks() const { return static_cast<int>(host_of_rank_.size()); }
  int hosts() const { return static_cast<int>(ranks_of_host_.size()); }
  int host_of(int rank) const { return host_of_rank_[rank]; }
  const std::vector<int>& ranks_of(int host) const { return ranks_of_host_[host]; }

  // The number of ranks on every host, or 0 when hosts differ.
  int ranks_per_host() const;
  // Whether each host's ranks are consecutive, so that the rows of a grid hold whole hosts.
  bool hosts_are_consecutive() const;

  // The topology of a group whose rank i is this one's rank members[i].
  Topology of(const std::vector<int>& members) const;

 private:
  std::vector<int> host_of_rank_;
  std::vector<std::vector<int>> ranks_of_host_;
};

// What processes must have in common to share memory: the running kernel, the network namespace (a namespace is a host
// of its own, as its ranks reach the others over a network), and the file system of /dev/shm.
std::string host_identity();
std::string host_name();  // for people

}  // namespace paceline
