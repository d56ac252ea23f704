#include "paceline/data/run_phases.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "paceline/core/check.h"
#include "paceline/data/sampler.h"
#include "paceline/schedule/from_recipe.h"

namespace paceline {
namespace {

uint64_t samples_of_run(const Recipe& recipe, const BatchSchedule& batch, uint64_t data_size) {
  const uint64_t unlimited = std::numeric_limits<uint64_t>::max();
  const uint64_t by_epochs =
      recipe.train.epochs > 0 ? first_cursor(recipe.train.epochs, data_size, unlimited) : unlimited;
  if (recipe.train.max_steps == 0) return by_epochs;
  return std::min(by_epochs, samples_in(batch, data_size, static_cast<uint64_t>(recipe.train.max_steps)));
}

// Where phases begin and end: 0, each epoch at which something changes, the end.
std::vector<double> boundaries(const Recipe& recipe, double end) {
  std::vector<double> epochs = {0, end, warmup_end(recipe)};
  epochs.insert(epochs.end(), recipe.schedule.milestones.begin(), recipe.schedule.milestones.end());
  epochs.insert(epochs.end(), recipe.batch.milestones.begin(), recipe.batch.milestones.end());
  std::erase_if(epochs, [&](double epoch) { return epoch > end; });
  std::ranges::sort(epochs);
  const auto repeated = std::ranges::unique(epochs);
  epochs.erase(repeated.begin(), repeated.end());
  return epochs;
}

}  // namespace

std::vector<RunPhase> run_phases(const Recipe& recipe, int ranks, uint64_t data_size) {
  CHECK_GT(ranks, 0);
  CHECK_GT(data_size, 0u);
  const BatchSchedule batch = batch_schedule(recipe, ranks, data_size);
  const BatchSchedule fill = fill_schedule(recipe);
  const Schedule rate = rate_schedule(recipe, static_cast<int64_t>(batch.at(0)));
  const Schedule momentum = momentum_schedule(recipe, batch);

  const uint64_t samples = samples_of_run(recipe, batch, data_size);
  double end = static_cast<double>(samples) / static_cast<double>(data_size);
  if (recipe.train.epochs > 0) end = std::min(end, recipe.train.epochs);
  const std::vector<double> epochs = boundaries(recipe, end);

  std::vector<RunPhase> phases;
  uint64_t steps_before = 0;
  for (size_t i = 0; i + 1 < epochs.size(); ++i) {
    const double from = epochs[i], to = epochs[i + 1];
    const bool last = i + 2 == epochs.size();
    const uint64_t size = batch.at(from);
    const int active = active_ranks(size, fill.at(from), ranks);
    const uint64_t steps = steps_in(batch, data_size, last ? samples : first_cursor(to, data_size, samples));
    phases.push_back({.from = from,
                      .to = to,
                      .batch = size,
                      .active_ranks = active,
                      .share = share({.begin = 0, .end = size}, 0, ranks, active).size(),
                      .rate = rate(from),
                      .rate_last = rate(last ? to : std::nextafter(to, from)),
                      .momentum = momentum(from),
                      .steps = steps - steps_before});
    steps_before = steps;
  }
  return phases;
}

int ranks_occupied(const Recipe& recipe, uint64_t data_size) {
  if (recipe.batch.fill == 0) return 1;
  const BatchSchedule batch = batch_schedule(recipe, 1, data_size);
  const BatchSchedule fill = fill_schedule(recipe);
  const auto occupied = [&](double epoch) {
    return active_ranks(batch.at(epoch), fill.at(epoch), std::numeric_limits<int>::max());
  };
  int most = occupied(0);
  for (const double milestone : recipe.batch.milestones) most = std::max(most, occupied(milestone));
  return most;
}

}  // namespace paceline
