// One training step: forward, backward, the sum of gradients over the ranks, clipping, update.
#pragma once

#include <memory>
#include <vector>

#include "paceline/comm/group.h"
#include "paceline/models/model.h"
#include "paceline/optim/optimizer.h"
#include "paceline/train/batch_tensors.h"

namespace paceline {

// What this rank's samples gave, as tensors: reading them waits for the device, and that is for the caller to decide.
struct StepOutcome {
  torch::Tensor loss_sum;  // double precision is for those who add many of them up
  torch::Tensor correct;
  int64_t samples = 0;
};

class TrainStep {
 public:
  TrainStep(std::shared_ptr<Model> model, Optimizer& optimizer, Group& group, const Recipe& recipe);

  // `global_count` samples are in this step on all ranks together; this rank's share may be empty. The gradient is the
  // mean over all of them, whatever each rank's share.
  StepOutcome operator()(const BatchTensors::Pair& batch, int64_t global_count, int64_t step, double rate);

 private:
  void sum_gradients_over_ranks();

  std::shared_ptr<Model> model_;
  Optimizer& optimizer_;
  Group& group_;
  const Recipe& recipe_;
  std::vector<Parameter> parameters_;
};

}  // namespace paceline
