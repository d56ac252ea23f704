// One training step: forward and backward in one or more passes, the sum of gradients over the ranks, clipping, update.
#pragma once

#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "paceline/gradients/reducer.h"
#include "paceline/models/layers.h"
#include "paceline/models/model.h"
#include "paceline/optim/optimizer.h"
#include "paceline/train/batch_tensors.h"

namespace paceline {

// What this rank's samples gave, as tensors: reading them waits for the device, and that is for the caller to decide.
struct StepOutcome {
  torch::Tensor loss_sum;  // double precision is for those who add many of them up
  torch::Tensor correct;
  int64_t samples = 0;
  bool stop_asked = false;  // of any rank, before its backward was over: all stop after the same step
};

struct StepInputs {
  BatchTensors::Pair batch;  // this rank's share, which may be empty
  int64_t global_count = 0;  // samples of all ranks
  int64_t step = 0;
  double epoch = 0;  // where the step begins
  double rate = 0;
  double momentum = 0;
  std::stop_token stop = {};
};

class TrainStep {
 public:
  // `timeline` may be null.
  TrainStep(std::shared_ptr<Model> model, Optimizer& optimizer, Group& group, const Recipe& recipe, Reducer& reducer,
            Timeline* timeline);

  // The gradient is the mean over all ranks' samples, whatever each rank's share.
  StepOutcome operator()(const StepInputs& inputs);

 private:
  void prepare_statistics(int64_t pass);
  void note(const char* what, int64_t begin_ns) const;

  std::shared_ptr<Model> model_;
  Optimizer& optimizer_;
  Group& group_;
  const Recipe& recipe_;
  Reducer& reducer_;
  Timeline* timeline_;
  SteadyClock clock_;
  std::vector<Parameter> parameters_;
  std::vector<BatchNorm2d*> last_iteration_;  // layers whose statistics are the last step's
};

}  // namespace paceline
