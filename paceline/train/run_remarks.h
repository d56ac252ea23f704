// What the log says of a run over ranks when it begins: its size, and what is odd about its recipe.
#pragma once

#include "paceline/comm/group.h"
#include "paceline/core/log.h"
#include "paceline/core/recipe.h"
#include "paceline/train/diagnosis.h"
#include "paceline/train/run_length.h"
#include "paceline/train/strategies/step_strategy.h"

namespace paceline {

struct RunFacts {
  const Recipe& recipe;
  Group& group;
  StepStrategy& strategy;
  RunLength length;
  int64_t parameters = 0;  // of the model
  uint64_t data_size = 0;
  uint64_t batch = 0;  // the first one
};

// Also: keys that mean nothing to a single rank, which is no mistake (a recipe holds for any number of ranks); a codec
// that costs more time than it saves; a LARS whose steps hardly move anything.
void log_run(const RunFacts& run, Log& log);

// Of a run that diverged: layers of the last diagnosis, which may be none, and layers as the run ended.
void log_layers(const std::vector<LayerFigures>& diagnosed, const std::vector<LayerFigures>& at_the_end, Log& log);

}  // namespace paceline
