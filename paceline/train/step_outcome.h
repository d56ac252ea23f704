// What goes into a training step, and what comes out of it.
#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>
#include <stop_token>
#include <vector>

#include "paceline/train/batches.h"
#include "paceline/train/diagnosis.h"

namespace paceline {

// What this rank's samples gave, as tensors: reading them waits for the device, and that is for the caller to decide.
struct StepOutcome {
  torch::Tensor loss_sum;  // double precision is for those who add many of them up
  torch::Tensor correct;
  int64_t samples = 0;
  bool stop_asked = false;           // of any rank, before that backward was over which is applied: all stop alike
  bool skipped = false;              // its gradients had overflowed
  torch::Tensor not_finite = {};     // above 0: gradients were not, and nobody knew in time; undefined: they were
  torch::Tensor overflow = {};       // above 0: skipped after all, which only the device knows
  std::vector<LayerFigures> layers;  // where inputs.diagnose
};

struct StepInputs {
  TrainingBatch batch;       // this rank's share, which may be empty
  int64_t global_count = 0;  // samples that the gradient is the mean of: of all ranks that sum it
  int64_t step = 0;
  int rank = 0;      // whose dropout it is
  double epoch = 0;  // where the step begins
  double rate = 0;
  double momentum = 0;
  std::stop_token stop = {};
  bool diagnose = false;   // look at every layer; one rank may do so alone
  bool diagnosed = false;  // a rank looks: all wait for the step
};

// What travels with the gradients, and becomes its sum over the ranks. Each step has all of them, whichever way it is
// made: ranks may differ in that.
enum StepRider { stops, losses_not_finite, step_riders };
using StepRiders = std::array<double, step_riders>;

}  // namespace paceline
