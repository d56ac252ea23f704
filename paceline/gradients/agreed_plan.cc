#include "paceline/gradients/agreed_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/collectives/group_text.h"
#include "paceline/collectives/hybrid.h"
#include "paceline/collectives/platforms.h"
#include "paceline/core/error.h"

namespace paceline {
namespace {

// Throws DataError where the plan names an algorithm that there is not.
ReductionPlan parse_known_plan(const std::string& text) {
  ReductionPlan plan = parse_reduction_plan(text);
  for (const auto& [dtype, steps] : plan.algorithms.steps)
    for (const PlanStep& step : steps)
      if (std::ranges::find(all_reduce_algorithms(), step.algorithm, &AllReduceAlgorithm::name) ==
          all_reduce_algorithms().end())
        throw DataError(fmt::format("a plan of reductions with the unknown algorithm '{}'", step.algorithm));
  return plan;
}

}  // namespace

ReductionPlan agreed_plan(Group& group, const std::string& circumstances, std::span<const size_t> counts,
                          std::string stored, const std::function<ReductionPlan()>& make) {
  if (group.rank() != 0) stored.clear();
  try {
    if (!stored.empty() && !parse_known_plan(stored).serves(circumstances, counts)) stored.clear();
  } catch (const DataError&) {  // a damaged one is made anew
    stored.clear();
  }
  stored = broadcast_text(group, stored, 0);
  return stored.empty() ? make() : parse_reduction_plan(stored);
}

std::unique_ptr<AllReduce> all_reduce_by(const Plan& plan, const std::string& algorithm, Group& group) {
  if (algorithm == "hybrid") return std::make_unique<Hybrid>(group, plan);
  const Cluster cluster = cluster_of(group);
  const AllReduceAlgorithm& wanted = all_reduce_algorithm(algorithm);
  if (!wanted.applies(cluster))
    throw UsageError(fmt::format("{} does not apply to engine {} with {} ranks on {} host{}", wanted.name, cluster.name,
                                 cluster.ranks, cluster.hosts, cluster.hosts == 1 ? "" : "s"));
  return wanted.make(group, cluster, plan.grid);
}

}  // namespace paceline
