// How long a run is, of which train.epochs and train.max_steps decide together.
#pragma once

#include <cstdint>

#include "paceline/core/recipe.h"
#include "paceline/schedule/batch_size.h"

namespace paceline {

struct RunLength {
  uint64_t samples = 0;  // that train.epochs asks for; the last batch may go past it
  int64_t steps = 0;
  double epochs = 0;
};

// Whether (from, to] holds a multiple of `interval`: when something that comes every so many epochs is due.
bool passes_multiple(double from, double to, double interval);

RunLength run_length(const Recipe::Train& train, const BatchSchedule& batch, uint64_t data_size);

}  // namespace paceline
