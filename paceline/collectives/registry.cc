// Every all-reduce there is. A line here, and it is tested, benchmarked, explained and chosen from.
#include <algorithm>

#include "paceline/collectives/all_reduce.h"
#include "paceline/collectives/direct.h"
#include "paceline/collectives/direct_eager.h"
#include "paceline/collectives/halving_doubling.h"
#include "paceline/collectives/hierarchical.h"
#include "paceline/collectives/native.h"
#include "paceline/collectives/node_aware.h"
#include "paceline/collectives/node_aware_pipelined.h"
#include "paceline/collectives/recursive_doubling.h"
#include "paceline/collectives/ring.h"
#include "paceline/collectives/torus2d.h"
#include "paceline/core/error.h"
#include "paceline/core/nearest.h"

namespace paceline {
namespace {

// An algorithm that needs nothing but the group.
template <void (*kReduce)(Group&, TensorView, ReduceOp)>
class Plain : public AllReduce {
 public:
  using AllReduce::AllReduce;

 protected:
  void reduce(const TensorView& data, ReduceOp op) override { kReduce(group(), data, op); }
};

template <class Algorithm>
std::unique_ptr<AllReduce> make(Group& group, const Cluster&, Grid) {
  return std::make_unique<Algorithm>(group);
}

std::unique_ptr<AllReduce> make_torus2d(Group& group, const Cluster&, Grid grid) {
  return std::make_unique<Torus2d>(group, grid);
}

std::unique_ptr<AllReduce> make_node_aware_pipelined(Group& group, const Cluster& cluster, Grid) {
  return std::make_unique<NodeAwarePipelined>(group, cluster);
}

template <Cost (*kCost)(const Cluster&, double)>
Cost without_grid(const Cluster& cluster, Grid, double bytes) {
  return kCost(cluster, bytes);
}

bool always(const Cluster&) { return true; }
bool on_one_host(const Cluster& cluster) { return cluster.shared_memory && cluster.hosts == 1; }
bool on_hosts_of_several(const Cluster& cluster) { return cluster.hosts > 1 && cluster.ranks_per_host > 1; }
bool on_equal_hosts(const Cluster& cluster) { return on_hosts_of_several(cluster) && cluster.hosts_are_equal(); }
bool where_the_engine_has_one(const Cluster& cluster) { return cluster.native_all_reduce; }

}  // namespace

const std::vector<AllReduceAlgorithm>& all_reduce_algorithms() {
  static const std::vector<AllReduceAlgorithm> algorithms = {
      {"ring", "reduce-scatter and all-gather around a ring", always, make<Plain<ring_all_reduce>>,
       without_grid<ring_cost>},
      {"recursive_doubling", "whole buffers, with a peer twice as far in each step", always,
       make<Plain<recursive_doubling_all_reduce>>, without_grid<recursive_doubling_cost>},
      {"halving_doubling", "halves, quarters ... out and back", always, make<Plain<halving_doubling_all_reduce>>,
       without_grid<halving_doubling_cost>},
      {"hierarchical", "to the host's master, among the masters, and back", on_hosts_of_several, make<Hierarchical>,
       without_grid<hierarchical_cost>},
      {"torus2d", "rings along the rows and columns of a grid", always, make_torus2d, torus2d_cost},
      {"node_aware", "chunks within the host, halving-doubling of each across hosts", on_equal_hosts, make<NodeAware>,
       without_grid<node_aware_cost>},
      {"node_aware_pipelined", "node_aware in segments, host and network at the same time", on_equal_hosts,
       make_node_aware_pipelined, without_grid<node_aware_pipelined_cost>},
      {"direct", "each rank adds its chunk of all buffers in shared memory", on_one_host, make<Direct>,
       without_grid<direct_cost>},
      {"direct_eager", "every rank adds all buffers in shared memory", on_one_host,
       make<Plain<direct_eager_all_reduce>>, without_grid<direct_eager_cost>},
      {"native", "the engine's own", where_the_engine_has_one, make<Plain<native_all_reduce>>,
       without_grid<native_cost>},
  };
  return algorithms;
}

const AllReduceAlgorithm& all_reduce_algorithm(const std::string& name) {
  const std::vector<AllReduceAlgorithm>& all = all_reduce_algorithms();
  const auto found = std::ranges::find(all, name, &AllReduceAlgorithm::name);
  if (found != all.end()) return *found;
  std::vector<std::string> names;
  for (const AllReduceAlgorithm& algorithm : all) names.push_back(algorithm.name);
  throw UsageError(fmt::format("there is no all-reduce algorithm '{}'{} (known: {})", name, did_you_mean(name, names),
                               fmt::join(names, ", ")));
}

}  // namespace paceline
