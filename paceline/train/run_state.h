// RunState: where a run is, apart from its tensors. It goes into checkpoints and comes back exactly.
//
// The position in the data and in every schedule is `cursor_samples`; random numbers have no state beside the recipe's
// seed (core/random.h). So this is all there is.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "paceline/precision/loss_scale.h"

namespace paceline {

struct RunState {
  int64_t step = 0;             // made, skipped ones included
  uint64_t cursor_samples = 0;  // samples seen by all ranks together
  uint64_t seed = 0;

  double train_seconds = 0;  // in training steps, loading included
  double eval_seconds = 0;

  LossScaleState loss_scale;  // the scale is 1 without loss scaling

  // Since the last line of metrics. The sums are one rank's; the number of steps is the same on all.
  int64_t window_steps = 0;
  double window_loss_sum = 0;
  int64_t window_correct = 0;
  int64_t window_samples = 0;

  int64_t evaluated_step = -1;  // the step of the last evaluation
  double train_loss = -1;       // of the last window, like train_accuracy; < 0: none yet
  double train_accuracy = -1;
  double test_accuracy = -1;  // of the last evaluation; < 0: none yet
  double test_top5 = -1;
  double test_loss = -1;
  double best_accuracy = -1;
  double target_seconds = -1;  // training time when the target accuracy was reached; < 0: not yet
  double target_epoch = -1;

  NLOHMANN_DEFINE_TYPE_INTRUSIVE(RunState, step, cursor_samples, seed, train_seconds, eval_seconds, loss_scale,
                                 window_steps, window_loss_sum, window_correct, window_samples, evaluated_step,
                                 train_loss, train_accuracy, test_accuracy, test_top5, test_loss, best_accuracy,
                                 target_seconds, target_epoch)
};

}  // namespace paceline
