// FlatSum: sums of one long run of f32 over the ranks, on a group of their own, by a plan that is fixed at the start.
//
// For what leaves as a whole: all gradients of a step (StaleSum), all parameters of a replica. What leaves piece by
// piece while backward runs is the Reducer's.
#pragma once

#include <memory>
#include <string>

#include "paceline/collectives/all_reduce.h"
#include "paceline/collectives/reduction_plan.h"

namespace paceline {

struct FlatSumOptions {
  std::string algorithm = "hybrid";  // or one of all_reduce_algorithms()
  std::string stored_plan;  // of rank 0: what plan_json() said of a run that is resumed; used where it still serves
};

class FlatSum {
 public:
  // For runs of about `count`. Every rank calls it. Throws UsageError when the algorithm does not serve.
  FlatSum(Group& world, size_t count, const FlatSumOptions& options);

  Memory allocate(size_t count) { return group_->allocate(count * sizeof(float)); }
  // Every rank calls it; `data` becomes the sum: the same bits on every rank, and in every run with this plan. One
  // thread at a time.
  void run(const TensorView& data);

  std::string plan_json() const { return print_reduction_plan(plan_); }
  std::string algorithm_text() const;  // "ring", "direct"; of one rank nothing

 private:
  std::unique_ptr<Group> group_;
  std::string algorithm_;
  ReductionPlan plan_;
  std::unique_ptr<AllReduce> all_reduce_;  // null: one rank
};

}  // namespace paceline
