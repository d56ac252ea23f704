#include "paceline/comm/topology.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <unordered_map>

namespace paceline {

Topology::Topology(const std::vector<std::string>& host_identity_of_rank) {
  std::unordered_map<std::string, int> host_of_identity;
  for (const std::string& identity : host_identity_of_rank) {
    const int host = host_of_identity.try_emplace(identity, hosts()).first->second;
    if (host == hosts()) ranks_of_host_.emplace_back();
    ranks_of_host_[host].push_back(ranks());
    host_of_rank_.push_back(host);
  }
}

Topology Topology::one_host(int ranks) { return Topology(std::vector<std::string>(ranks)); }

int Topology::ranks_per_host() const {
  if (hosts() == 0) return 0;
  const size_t first = ranks_of_host_.front().size();
  const bool same = std::ranges::all_of(ranks_of_host_, [&](const auto& ranks) { return ranks.size() == first; });
  return same ? static_cast<int>(first) : 0;
}

// Hosts are numbered in the order of their first rank: one that comes back later is a number that falls.
bool Topology::hosts_are_consecutive() const { return std::ranges::is_sorted(host_of_rank_); }

Topology Topology::of(const std::vector<int>& members) const {
  std::vector<std::string> hosts;
  hosts.reserve(members.size());
  for (const int member : members) hosts.push_back(std::to_string(host_of_rank_.at(member)));
  return Topology(hosts);
}

// Where the kernel does not say which boot it is, the host's name stands in: without either, two machines with equal
// numbers below would be one host.
std::string host_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::string identity = boot.empty() ? fmt::format("host {}", host_name()) : fmt::format("boot {}", boot);
  struct stat found {};
  if (stat("/proc/self/ns/net", &found) == 0) identity += fmt::format(", network {}", found.st_ino);
  if (stat("/dev/shm", &found) == 0) identity += fmt::format(", memory {}", found.st_dev);
  return identity;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

}  // namespace paceline
