// One training step: forward and backward in one or more passes, the sum of gradients over the ranks, clipping, update.
//
// With a loss scaler, a step whose gradients are not finite is skipped, and leaves nothing behind but a smaller scale.
// Without one, on the CPU, it throws DivergenceError before the weights are touched; on a device, where to know would
// be to wait, the outcome tells, and neither this step nor a later one changes the weights.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/gradients/reducer.h"
#include "paceline/models/model.h"
#include "paceline/optim/optimizer.h"
#include "paceline/precision/loss_scaler.h"
#include "paceline/train/gradient_pass.h"
#include "paceline/train/step_maker.h"
#include "paceline/train/step_probes.h"
#include "paceline/train/step_undo.h"

namespace paceline {

class TrainStep : public StepMaker {
 public:
  // `group`: the ranks that must agree whether the run has diverged. `timeline` may be null; `scaler`: null without
  // loss scaling. `before_search` is called before the ranks of the group search for the layer where a divergence
  // began.
  TrainStep(
      std::shared_ptr<Model> model, Optimizer& optimizer, Group& group, const Recipe& recipe, Reducer& reducer,
      Timeline* timeline, LossScaler* scaler = nullptr, std::function<void()> before_search = [] {});

  // The gradient is the mean over the samples of all ranks of the reducer, whatever each rank's share.
  StepOutcome make(const StepInputs& inputs) override;

  // Its two halves. compute() leaves in grad() the sum of the gradients, and in `rode` that of the riders; apply()
  // judges what is in grad() and updates the weights.
  StepOutcome compute(const StepInputs& inputs, StepRiders& rode);
  void apply(const StepInputs& inputs, const StepRiders& rode, StepOutcome& outcome);

  bool outcomes_come_late() const override { return !device().is_cpu(); }
  [[noreturn]] void fail_again(const StepInputs& inputs, const std::string& what) override;

 private:
  StepOutcome add_gradients(const StepInputs& inputs, StepRiders& rode);
  void judge(const StepInputs& inputs, bool losses_finite, StepOutcome& outcome);
  void update(const StepInputs& inputs, StepOutcome& outcome);
  RateProbes probes_of(const StepInputs& inputs, const StepOutcome& outcome);
  double loss_again(const StepInputs& inputs);
  double mean_over_ranks(const StepInputs& inputs, const torch::Tensor& loss_sum);
  [[noreturn]] void fail(const StepInputs& inputs, const std::string& what);
  std::string where_it_began(const StepInputs& inputs);
  torch::Device device() const { return parameters_.front().tensor.device(); }

  std::shared_ptr<Model> model_;
  Optimizer& optimizer_;
  Group& group_;
  const Recipe& recipe_;
  Reducer& reducer_;
  Timeline* timeline_;
  LossScaler* scaler_;
  std::function<void()> before_search_;
  GradientPass pass_;
  std::optional<StepUndo> undo_;      // with a scaler
  std::optional<StepProbes> probes_;  // where the rate is found on the way
  torch::Tensor diverged_;            // on a device without a scaler: above 0 when a gradient was not finite
  SteadyClock clock_;
  std::vector<Parameter> parameters_;
};

}  // namespace paceline
