#include "paceline/schedule/batch_size.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "paceline/core/check.h"

namespace paceline {

BatchSchedule::BatchSchedule(BatchPhases phases) : phases_(std::move(phases)), largest_(phases_.first) {
  CHECK_EQ(phases_.sizes.size(), phases_.milestones.size());
  CHECK_GT(phases_.first, 0u);
  double before = 0;
  for (const double milestone : phases_.milestones) CHECK_GT(milestone, std::exchange(before, milestone));
  for (const uint64_t size : phases_.sizes) {
    CHECK_GT(size, 0u);
    largest_ = std::max(largest_, size);
  }
}

uint64_t BatchSchedule::at(double epoch) const {
  const auto reached = std::ranges::upper_bound(phases_.milestones, epoch) - phases_.milestones.begin();
  return reached == 0 ? phases_.first : phases_.sizes[static_cast<size_t>(reached - 1)];
}

double BatchSchedule::next_milestone(double epoch) const {
  const auto next = std::ranges::upper_bound(phases_.milestones, epoch);
  return next == phases_.milestones.end() ? std::numeric_limits<double>::infinity() : *next;
}

}  // namespace paceline
