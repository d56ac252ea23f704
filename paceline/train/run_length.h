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

// When lines of metrics are due. Each tells of the steps since the last one: a few steps are noise, so what is left at
// the end joins the line before where it would be less than half of an interval.
struct RecordRhythm {
  int64_t every_steps = 1;  // train.log_every_steps
  int64_t epoch_steps = 1;  // where an epoch has fewer, there is a line at the end of each
  int64_t steps = 0;        // of the run

  bool is_due(int64_t step, bool ends_epoch) const;
};

RunLength run_length(const Recipe::Train& train, const BatchSchedule& batch, uint64_t data_size);

}  // namespace paceline
