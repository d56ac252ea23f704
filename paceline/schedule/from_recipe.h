// The learning rate, batch and momentum that a recipe asks for.
#pragma once

#include <cstdint>

#include "paceline/core/recipe.h"
#include "paceline/schedule/batch_size.h"
#include "paceline/schedule/schedule.h"

namespace paceline {

// optimizer.rate, scaled to the global batch when schedule.reference_batch is given, on the recipe's schedule and
// warm-up. warmup_from and end_rate are taken as they are, not scaled. Throws RecipeError when end_rate lies above the
// rate.
Schedule rate_schedule(const Recipe& recipe, int64_t global_batch);

// The global batch by epoch: batch.global, or batch.local on each of so many ranks, and what it becomes at
// batch.milestones. Never more than the data has.
BatchSchedule batch_schedule(const Recipe& recipe, int ranks, uint64_t data_size);

// optimizer.momentum, or what keeps the noise of a step as it is with that momentum at schedule.momentum_batch.
Schedule momentum_schedule(const Recipe& recipe, const BatchSchedule& batch);

}  // namespace paceline
