// ReductionPlan: how the gradients of a model are summed: what is in which bucket, and the all-reduce for each size.
//
// A run keeps it. Resumed with the same ranks it then sums in the same order and gets the same bits, also when a
// profile that was measured in between would decide otherwise. Pure.
#pragma once

#include <span>
#include <string>

#include "paceline/collectives/bucket_plan.h"
#include "paceline/collectives/plan.h"

namespace paceline {

struct ReductionPlan {
  std::string made_for;  // ranks, engine, settings: in other circumstances another one is made
  Plan algorithms;
  BucketPlan buckets;

  // Whether it serves these circumstances and parameters of these counts.
  bool serves(const std::string& circumstances, std::span<const size_t> counts) const {
    return made_for == circumstances && buckets.fits(counts);
  }
  bool operator==(const ReductionPlan&) const = default;
};

std::string print_reduction_plan(const ReductionPlan& plan);  // JSON
ReductionPlan parse_reduction_plan(const std::string& text);  // throws DataError

}  // namespace paceline
