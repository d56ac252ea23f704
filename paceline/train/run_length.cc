#include "paceline/train/run_length.h"

#include <algorithm>
#include <cmath>

#include "paceline/data/sampler.h"

namespace paceline {

bool passes_multiple(double from, double to, double interval) {
  constexpr double kRounding = 1e-9;
  return interval > 0 && std::floor(to / interval + kRounding) > std::floor(from / interval + kRounding);
}

bool RecordRhythm::is_due(int64_t step, bool ends_epoch) const {
  const int64_t left = steps - step;
  if (left > 0 && 2 * left < std::min(every_steps, epoch_steps)) return false;
  return epoch_steps < every_steps ? ends_epoch : step % every_steps == 0;
}

RunLength run_length(const Recipe::Train& train, const BatchSchedule& batch, uint64_t data_size) {
  const auto size = static_cast<double>(data_size);
  RunLength length = {.samples = static_cast<uint64_t>(std::ceil(train.epochs * size - 1e-6)), .epochs = train.epochs};
  length.steps = static_cast<int64_t>(steps_in(batch, data_size, length.samples));
  if (train.max_steps == 0) return length;
  const auto most_steps = static_cast<uint64_t>(train.max_steps);
  const double by_steps = static_cast<double>(samples_in(batch, data_size, most_steps)) / size;
  length.steps = train.epochs > 0 ? std::min(length.steps, train.max_steps) : train.max_steps;
  length.epochs = train.epochs > 0 ? std::min(train.epochs, by_steps) : by_steps;
  return length;
}

}  // namespace paceline
