#include "paceline/collectives/platforms.h"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/error.h"
#include "paceline/core/nearest.h"

namespace paceline {
namespace {

constexpr Link kSharedMemory = {1e-6, 0.12e-9};  // 2 cores: 64 MB between 2 ranks in 9.8 ms
constexpr Link kMpiLoopback = {0.5e-6, 0.5e-9};
constexpr Link kGlooLoopback = {60e-6, 0.6e-9};
constexpr Link kEthernet = {30e-6, 0.8e-9};  // 10 Gb/s
constexpr double kMeeting = 0.3e-6;
constexpr double kAddition = 0.05e-9;

struct Platform {
  Cluster links;
  int ranks_per_host;  // 0: all on one
};

Platform find(const std::string& name) {
  if (name == "abci") return {{.node = {1e-6, 1 / 100e9}, .network = {5e-6, 1 / 25e9}}, 4};
  Cluster machine = {.network = kEthernet, .meeting_s = kMeeting, .gamma_s_per_byte = kAddition};
  machine.shared_memory = name == "local" || name.starts_with("shm");
  machine.native_all_reduce = name == "mpi" || name == "gloo";
  if (machine.shared_memory)
    machine.node = kSharedMemory;
  else
    machine.node = name == "mpi" ? kMpiLoopback : kGlooLoopback;
  return {machine, 0};
}

Cluster with_ranks(const std::string& name, int ranks, int hosts, int ranks_per_host) {
  Cluster cluster = find(name).links;
  cluster.name = name;
  cluster.ranks = ranks;
  cluster.hosts = hosts;
  cluster.ranks_per_host = ranks_per_host;
  return cluster;
}

}  // namespace

const std::vector<std::string>& platform_names() {
  static const std::vector<std::string> names = {"abci", "shm", "gloo", "mpi", "shm+gloo", "shm+mpi"};
  return names;
}

Cluster platform(const std::string& name, int ranks, int ranks_per_host) {
  if (std::ranges::find(platform_names(), name) == platform_names().end())
    throw UsageError(fmt::format("there is no platform '{}'{} (known: {})", name, did_you_mean(name, platform_names()),
                                 fmt::join(platform_names(), ", ")));
  if (ranks_per_host == 0) ranks_per_host = find(name).ranks_per_host;
  if (ranks_per_host == 0) ranks_per_host = ranks;
  ranks_per_host = std::min(ranks, ranks_per_host);
  return with_ranks(name, ranks, (ranks + ranks_per_host - 1) / ranks_per_host, ranks_per_host);
}

Cluster cluster_of(const Group& group) {
  const Topology& topology = group.topology();
  size_t largest = 0;
  for (int host = 0; host < topology.hosts(); ++host) largest = std::max(largest, topology.ranks_of(host).size());
  Cluster cluster = with_ranks(group.engine(), group.size(), topology.hosts(), static_cast<int>(largest));
  cluster.native_all_reduce = group.has_native_all_reduce();
  return cluster;
}

}  // namespace paceline
