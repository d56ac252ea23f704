// Stale-synchronous all-reduce: a step applies the sum of gradients that were computed `staleness` steps before, so
// that the all-reduce has so many steps of time. There is no server, and nothing to decide: all ranks apply the same
// sums in the same order.
//
// A run of n steps computes n gradients and applies n: at step t (from 0) that of step t - staleness, nothing during
// the first `staleness` steps, and those that are under way when the last step is done, in their order, at the end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace paceline {

// The step whose summed gradient is applied at this step.
inline std::optional<uint64_t> applied_at(uint64_t step, uint64_t staleness) {
  if (step < staleness) return std::nullopt;
  return step - staleness;
}

// Steps [begin, end) whose summed gradients have not been applied after `steps` steps: to be applied at the end, and
// before a checkpoint that is to need no gradients under way.
struct StepsUnderWay {
  uint64_t begin = 0;
  uint64_t end = 0;

  bool operator==(const StepsUnderWay&) const = default;
};
inline StepsUnderWay under_way_after(uint64_t steps, uint64_t staleness) {
  return {.begin = steps - std::min(steps, staleness), .end = steps};
}

}  // namespace paceline
