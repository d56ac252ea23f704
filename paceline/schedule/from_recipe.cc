#include "paceline/schedule/from_recipe.h"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/check.h"
#include "paceline/schedule/momentum.h"

namespace paceline {
namespace {

Schedule shape(const Recipe& recipe, double base) {
  const Recipe::Schedule& schedule = recipe.schedule;
  const double epochs = recipe.train.epochs;
  if (schedule.name == "constant") return constant(base);
  if (schedule.name == "step") return step(base, schedule.milestones, schedule.factor);
  if (schedule.name == "exponential") return exponential(base, schedule.factor);
  if (schedule.end_rate > base) {  // only now: the batch, and with it the scaled rate, was not known to the recipe
    recipe.refuse("schedule.end_rate",
                  fmt::format("{} is above the rate that it starts from, {}", schedule.end_rate, base));
  }
  if (schedule.name == "polynomial") return polynomial(base, epochs, schedule.power, schedule.end_rate);
  if (schedule.name == "cosine") return cosine(base, epochs, schedule.end_rate);
  detail::check_failed(__FILE__, __LINE__, "no schedule is named " + schedule.name);  // recipe_keys.cc has the list
}

}  // namespace

Schedule rate_schedule(const Recipe& recipe, int64_t global_batch) {
  const int64_t reference = recipe.schedule.reference_batch;
  const double rate = recipe.optimizer.rate;
  const double base = reference > 0 ? scaled_rate(rate, global_batch, reference) : rate;
  const Schedule after = shape(recipe, base);
  return with_warmup(recipe.schedule.warmup_epochs, recipe.schedule.warmup_from, after);
}

BatchSchedule batch_schedule(const Recipe& recipe, int ranks, uint64_t data_size) {
  const Recipe::Batch& batch = recipe.batch;
  const uint64_t each = batch.local > 0 ? static_cast<uint64_t>(ranks) : 1;
  const auto size = [&](double samples) { return std::min(static_cast<uint64_t>(samples) * each, data_size); };
  BatchPhases phases = {.first = size(static_cast<double>(batch.local > 0 ? batch.local : batch.global)),
                        .milestones = batch.milestones,
                        .sizes = {}};
  for (const double samples : batch.sizes) phases.sizes.push_back(size(samples));
  return phases;
}

Schedule momentum_schedule(const Recipe& recipe, const BatchSchedule& batch) {
  const double momentum = recipe.optimizer.momentum;
  if (recipe.schedule.momentum == "constant") return constant(momentum);
  const int64_t reference =
      recipe.schedule.momentum_batch > 0 ? recipe.schedule.momentum_batch : static_cast<int64_t>(batch.at(0));
  return [=](double epoch) { return noise_scale_momentum(momentum, reference, static_cast<int64_t>(batch.at(epoch))); };
}

}  // namespace paceline
