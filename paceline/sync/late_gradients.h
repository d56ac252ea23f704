// What becomes of gradients that come after their step.
//
//   additive: momentum += gamma^s·g·b/B_all, B_all the samples of one gradient from every live worker
//   mean:     momentum and the mean of the gradient's version become what they would be had it been in time
//   zhang:    momentum += gamma^s·g/k_j, k_j the gradients of the step that it has missed
//   drop:     nothing
#pragma once

#include <cstdint>
#include <string>

#include "paceline/sync/policy.h"

namespace paceline {

struct LateGradient {
  int worker = -1;
  uint64_t version = 0;
  uint64_t samples = 0;
  uint64_t staleness = 0;     // at least 1
  double all_samples = 0;     // B_all
  int gradients_of_step = 0;  // k_j
};

// merge, merge_mean or drop. REQUIRES: `merge` is one of the names above
Decision decide_late(const LateGradient& late, const std::string& merge, double momentum, int history);

}  // namespace paceline
