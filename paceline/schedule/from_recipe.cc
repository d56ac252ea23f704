#include "paceline/schedule/from_recipe.h"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/check.h"
#include "paceline/schedule/momentum.h"

namespace paceline {
namespace {

// The schedule's shape over so many epochs, from `base` on.
Schedule shape(const Recipe& recipe, double base, double epochs) {
  const Recipe::Schedule& schedule = recipe.schedule;
  if (schedule.name == "constant") return constant(base);
  if (schedule.name == "step") return step(base, schedule.milestones, schedule.factor);
  if (schedule.name == "exponential") return exponential(base, schedule.factor);
  if (schedule.end_rate > base) {  // only now: the batch, and with it the scaled rate, was not known to the recipe
    recipe.refuse("schedule.end_rate",
                  fmt::format("{} is above the rate that it starts from, {}", schedule.end_rate, base));
  }
  if (schedule.name == "polynomial") return polynomial(base, epochs, schedule.power, schedule.end_rate);
  if (schedule.name == "cosine") return cosine(base, epochs, schedule.end_rate);
  detail::check_failed(__FILE__, __LINE__,
                       "no schedule is named " + schedule.name);  // recipe_training_sections.cc has the list
}

double scaled(const Recipe& recipe, double rate, int64_t global_batch) {
  const int64_t reference = recipe.schedule.reference_batch;
  return reference > 0 ? scaled_rate(rate, global_batch, reference) : rate;
}

}  // namespace

double base_rate(const Recipe& recipe, int64_t global_batch) {
  return scaled(recipe, recipe.optimizer.rate, global_batch);
}

double highest_rate(const Recipe& recipe, int64_t global_batch) {
  double highest = std::max(base_rate(recipe, global_batch), recipe.schedule.warmup_to);
  for (const double rate : recipe.schedule.rates) highest = std::max(highest, scaled(recipe, rate, global_batch));
  return highest;
}

double warmup_end(const Recipe& recipe) {
  return recipe.optimizer.name == "hybrid" ? recipe.optimizer.hybrid_epochs : recipe.schedule.warmup_epochs;
}

Schedule rate_schedule(const Recipe& recipe, int64_t global_batch) {
  const Recipe::Schedule& schedule = recipe.schedule;
  const auto from = [&](double rate) {
    if (schedule.decay_from == "start") return shape(recipe, scaled(recipe, rate, global_batch), recipe.train.epochs);
    const double start = warmup_end(recipe);
    return starting_at(start, shape(recipe, scaled(recipe, rate, global_batch), recipe.train.epochs - start));
  };
  Schedule after = from(recipe.optimizer.rate);
  if (!schedule.rates.empty()) {
    std::vector<Schedule> all = {std::move(after)};
    for (const double rate : schedule.rates) all.push_back(from(rate));
    after = in_phases(schedule.milestones, std::move(all));
  }
  if (schedule.warmup_to > 0)
    return with_warmup(schedule.warmup_epochs, schedule.warmup_from, schedule.warmup_to, std::move(after));
  return with_warmup(schedule.warmup_epochs, schedule.warmup_from, std::move(after));
}

BatchSchedule batch_schedule(const Recipe& recipe, int ranks, uint64_t data_size) {
  const Recipe::Batch& batch = recipe.batch;
  if (batch.local == Recipe::Batch::kLargestThatFits)
    recipe.refuse("batch.local", "\"auto\" is settled when a run starts; to plan one, give a number");
  const uint64_t each = batch.local > 0 ? static_cast<uint64_t>(ranks) : 1;
  const auto size = [&](double samples) { return std::min(static_cast<uint64_t>(samples) * each, data_size); };
  BatchPhases phases = {.first = size(static_cast<double>(batch.local > 0 ? batch.local : batch.global)),
                        .milestones = batch.milestones,
                        .sizes = {}};
  for (const double samples : batch.sizes) phases.sizes.push_back(size(samples));
  return phases;
}

BatchSchedule fill_schedule(const Recipe& recipe) {
  BatchPhases fills = {
      .first = static_cast<uint64_t>(std::max<int64_t>(recipe.batch.fill, 1)), .milestones = {}, .sizes = {}};
  if (!recipe.batch.fills.empty()) fills.milestones = recipe.batch.milestones;
  for (const double samples : recipe.batch.fills) fills.sizes.push_back(static_cast<uint64_t>(samples));
  return fills;
}

Schedule momentum_schedule(const Recipe& recipe, const BatchSchedule& batch) {
  const double momentum = recipe.optimizer.momentum;
  if (recipe.schedule.momentum == "constant") return constant(momentum);
  const int64_t reference =
      recipe.schedule.momentum_batch > 0 ? recipe.schedule.momentum_batch : static_cast<int64_t>(batch.at(0));
  double least = static_cast<double>(batch.at(0));
  for (const double milestone : recipe.batch.milestones)
    least = std::min(least, static_cast<double>(batch.at(milestone)));
  if ((1 - momentum) * static_cast<double>(reference) > least)
    recipe.refuse("schedule.momentum_batch",
                  fmt::format("{} is more than {:.4g} times the batch of {}: no momentum above 0 has as much noise",
                              reference, 1 / (1 - momentum), least));
  return [=](double epoch) { return noise_scale_momentum(momentum, reference, static_cast<int64_t>(batch.at(epoch))); };
}

}  // namespace paceline
