// The learning rate that a recipe asks for.
#pragma once

#include <cstdint>

#include "paceline/core/recipe.h"
#include "paceline/schedule/schedule.h"

namespace paceline {

// optimizer.rate, scaled to the global batch when schedule.reference_batch is given, on the recipe's schedule and
// warm-up. warmup_from and end_rate are taken as they are, not scaled. Throws RecipeError when end_rate lies above the
// rate.
Schedule rate_schedule(const Recipe& recipe, int64_t global_batch);

}  // namespace paceline
