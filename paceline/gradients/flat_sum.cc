#include "paceline/gradients/flat_sum.h"

#include <fmt/format.h>

#include <array>

#include "paceline/collectives/group_text.h"
#include "paceline/collectives/hybrid.h"
#include "paceline/collectives/platforms.h"
#include "paceline/core/version.h"
#include "paceline/gradients/agreed_plan.h"

namespace paceline {

FlatSum::FlatSum(Group& world, size_t count, const FlatSumOptions& options)
    : group_(world.split(0, world.rank())), algorithm_(options.algorithm) {
  if (group_->size() == 1) return;
  const Cluster cluster = cluster_of(*group_);
  const std::string circumstances = fmt::format("{} ranks on {} hosts over {}, algorithm {}, in one piece, version {}",
                                                cluster.ranks, cluster.hosts, group_->engine(), algorithm_, kVersion);
  const std::array<size_t, 1> counts = {count};
  plan_ = agreed_plan(*group_, circumstances, counts, options.stored_plan, [&] {
    return ReductionPlan{
        .made_for = circumstances,
        .algorithms = decide_plan(*group_, HybridOptions{.measure = HybridOptions::Measure::never}).plan,
        .buckets = plan_buckets(counts, kOneBucket)};
  });
  all_reduce_ = all_reduce_by(plan_.algorithms, algorithm_, *group_);
}

void FlatSum::run(const TensorView& data) {
  if (all_reduce_) all_reduce_->run(data, ReduceOp::sum);
}

std::string FlatSum::algorithm_text() const {
  if (!all_reduce_) return "";
  if (algorithm_ != "hybrid") return algorithm_;
  return plan_.algorithms.algorithm(DType::f32, plan_.buckets.buckets.front().bytes());
}

}  // namespace paceline
