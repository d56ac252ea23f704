// How long a run is, of which train.epochs and train.max_steps decide together.
#pragma once

#include <cstdint>
#include <string>

#include "paceline/core/recipe.h"
#include "paceline/schedule/batch_size.h"

namespace paceline {

struct RunLength {
  uint64_t samples = 0;  // that train.epochs asks for; the last batch may go past it
  int64_t steps = 0;
  double epochs = 0;

  // Which of the two has ended a run after so many steps and samples: "max_steps" or "epochs"; "": neither.
  std::string ending(const Recipe::Train& train, int64_t step, uint64_t samples_seen) const;
};

// Whether (from, to] holds a multiple of `interval`: when something that comes every so many epochs is due.
bool passes_multiple(double from, double to, double interval);

// Whether a checkpoint is due between two moments of a run: every checkpoint.every_steps steps, or each epoch.
struct StepAndEpoch {
  int64_t step = 0;
  double epoch = 0;
};
bool checkpoint_is_due(const Recipe::Checkpoint& checkpoint, const StepAndEpoch& before, const StepAndEpoch& now);

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
