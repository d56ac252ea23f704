// The learning rate, batch and momentum that a recipe asks for.
#pragma once

#include <cstdint>

#include "paceline/core/recipe.h"
#include "paceline/schedule/batch_size.h"
#include "paceline/schedule/schedule.h"

namespace paceline {

// optimizer.rate, scaled to the global batch when schedule.reference_batch is given.
double base_rate(const Recipe& recipe, int64_t global_batch);

// The highest that a run comes to: base_rate, schedule.rates scaled as it, or schedule.warmup_to.
double highest_rate(const Recipe& recipe, int64_t global_batch);

// The epoch at which the schedule's warm-up is over, or the hybrid's, which hands over then; 0: there is none.
double warmup_end(const Recipe& recipe);

// base_rate, and schedule.rates scaled as it, on the recipe's schedule and warm-up. warmup_from, warmup_to and end_rate
// are taken as they are, not scaled. Throws RecipeError when end_rate lies above a rate that it is reached from.
Schedule rate_schedule(const Recipe& recipe, int64_t global_batch);

// The global batch by epoch: batch.global, or batch.local on each of so many ranks, and what it becomes at
// batch.milestones. Never more than the data has.
BatchSchedule batch_schedule(const Recipe& recipe, int ranks, uint64_t data_size);

// How many samples a rank takes before the next one gets any, by epoch: batch.fill, and what it becomes at
// batch.milestones. 1 where the recipe has none: all ranks share alike.
BatchSchedule fill_schedule(const Recipe& recipe);

// optimizer.momentum, or what keeps the noise of a step as it is with that momentum at schedule.momentum_batch.
Schedule momentum_schedule(const Recipe& recipe, const BatchSchedule& batch);

}  // namespace paceline
