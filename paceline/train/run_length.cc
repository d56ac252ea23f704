#include "paceline/train/run_length.h"

#include <algorithm>
#include <cmath>

#include "paceline/data/sampler.h"

namespace paceline {

bool passes_multiple(double from, double to, double interval) {
  constexpr double kRounding = 1e-9;
  return interval > 0 && std::floor(to / interval + kRounding) > std::floor(from / interval + kRounding);
}

std::string RunLength::ending(const Recipe::Train& train, int64_t step, uint64_t samples_seen) const {
  if (train.max_steps > 0 && step >= train.max_steps) return "max_steps";
  return train.epochs > 0 && samples_seen >= samples ? "epochs" : "";
}

bool checkpoint_is_due(const Recipe::Checkpoint& checkpoint, const StepAndEpoch& before, const StepAndEpoch& now) {
  if (checkpoint.every_steps == 0) return passes_multiple(before.epoch, now.epoch, 1);
  return now.step / checkpoint.every_steps > before.step / checkpoint.every_steps;
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
