// The plan by which a group sums: rank 0's, the same on every rank, and the one that the run had before where it still
// serves.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "paceline/collectives/all_reduce.h"
#include "paceline/collectives/reduction_plan.h"

namespace paceline {

// `stored`: of rank 0, what a run that goes on has kept; "": nothing. What is damaged or made for other circumstances
// or counts does not serve, and `make` is called (on every rank) for another. Every rank calls it.
ReductionPlan agreed_plan(Group& group, const std::string& circumstances, std::span<const size_t> counts,
                          std::string stored, const std::function<ReductionPlan()>& make);

// `algorithm`: "hybrid", which follows the plan, or a name of all_reduce_algorithms(). Throws UsageError when there is
// none, or when it does not apply to this group. Every rank calls it; the group must outlive the result.
std::unique_ptr<AllReduce> all_reduce_by(const Plan& plan, const std::string& algorithm, Group& group);

}  // namespace paceline
