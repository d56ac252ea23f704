// AllReduce: an algorithm, bound to a group. Every rank's data becomes the sum (max, min) over all ranks: the same bits
// on every rank, and in every run with as many ranks.
//
// Algorithms know a group and a view, no engine. To add one is to add a file and a line in registry.cc: it is then
// tested, benchmarked, explained and chosen from like the others.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "paceline/collectives/cost_model.h"
#include "paceline/comm/group.h"

namespace paceline {

class AllReduce {
 public:
  explicit AllReduce(Group& group) : group_(group) {}
  virtual ~AllReduce() = default;

  // Every rank of the group calls it. Any count, also 0; f32, f64, f16, bf16, i32, i64. Allocates nothing once it has
  // seen its largest buffer.
  void run(const TensorView& data, ReduceOp op) {
    group_.perform(Verb::all_reduce, data, op, -1, [&] { reduce(data, op); });
  }
  // As part of an operation that is under way.
  void run_within(const TensorView& data, ReduceOp op) { reduce(data, op); }

 protected:
  virtual void reduce(const TensorView& data, ReduceOp op) = 0;
  Group& group() const { return group_; }

 private:
  Group& group_;
};

struct AllReduceAlgorithm {
  std::string name;     // "torus2d"
  std::string summary;  // one line for people
  // Whether it can run there and makes sense: shared memory, an engine's own, several hosts. For a group:
  // applies(cluster_of(group)), the same answer on every rank.
  std::function<bool(const Cluster& cluster)> applies;
  // Every rank calls it, with the same arguments: split groups are made here. The group must outlive the result.
  std::function<std::unique_ptr<AllReduce>(Group& group, const Cluster& cluster, Grid grid)> make;
  // `bytes` is the whole buffer's size.
  std::function<Cost(const Cluster& cluster, Grid grid, double bytes)> cost;
};

const std::vector<AllReduceAlgorithm>& all_reduce_algorithms();
const AllReduceAlgorithm& all_reduce_algorithm(const std::string& name);  // throws UsageError with the known names

}  // namespace paceline
