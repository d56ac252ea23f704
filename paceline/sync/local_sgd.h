// Local SGD: ranks train alone and average their parameters every so many steps. There is no server: each rank asks
// this function, and all get the same answer.
#pragma once

#include <cstdint>

#include "paceline/core/check.h"

namespace paceline {

// Whether ranks average after their `step`-th step, counted from 1, of `steps` in all. They do after every
// `interval`-th and after the last, so that a run ends with one model. REQUIRES: interval >= 1, 1 <= step <= steps
inline bool averages_after(uint64_t step, uint64_t interval, uint64_t steps) {
  CHECK_GE(interval, 1u);
  CHECK_GE(step, 1u);
  CHECK_LE(step, steps);
  return step % interval == 0 || step == steps;
}

}  // namespace paceline
