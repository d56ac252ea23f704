#include "paceline/train/step.h"

#include "paceline/collectives/sum_over_ranks.h"
#include "paceline/core/random.h"
#include "paceline/optim/gradient_norm.h"
#include "paceline/train/loss.h"

namespace paceline {

TrainStep::TrainStep(std::shared_ptr<Model> model, Optimizer& optimizer, Group& group, const Recipe& recipe)
    : model_(std::move(model)),
      optimizer_(optimizer),
      group_(group),
      recipe_(recipe),
      parameters_(parameters_of(*model_)) {}

StepOutcome TrainStep::operator()(const BatchTensors::Pair& batch, int64_t global_count, int64_t step, double rate) {
  // libtorch's dropout draws from its own generator: it is set anew for each step and rank, so that it has no past.
  torch::manual_seed(RandomKey(recipe_.train.seed).with("dropout").with(step).with(group_.rank()).value());

  for (const Parameter& parameter : parameters_) parameter.tensor.mutable_grad().reset();
  StepOutcome outcome = {torch::zeros({}), torch::zeros({}, torch::kInt64), batch.labels.size(0)};
  if (outcome.samples > 0) {
    const torch::Tensor logits = model_->forward(batch.images);
    const torch::Tensor loss = loss_sum(recipe_.loss, logits, batch.labels);
    (loss / global_count).backward();
    outcome.loss_sum = loss.detach();
    outcome.correct = correct_top1(logits.detach(), batch.labels);
  }
  sum_gradients_over_ranks();

  const double max_norm = recipe_.optimizer.clip_norm;
  const double scale = max_norm > 0 ? clip_scale(gradient_norm(parameters_), max_norm) : 1;
  optimizer_.step({.rate = rate, .momentum = recipe_.optimizer.momentum, .gradient_scale = scale});
  return outcome;
}

void TrainStep::sum_gradients_over_ranks() {
  if (group_.size() == 1) return;
  const torch::NoGradGuard no_grad;
  for (const Parameter& parameter : parameters_) {
    torch::Tensor& gradient = parameter.tensor.mutable_grad();
    // Every rank sums every parameter, in the same order and layout, also one that this rank had no use for.
    gradient = gradient.defined() ? with_layout_of(parameter.tensor, gradient) : torch::zeros_like(parameter.tensor);
    sum_over_ranks(group_, {gradient.data_ptr(), static_cast<size_t>(gradient.numel()), DType::f32});
  }
}

}  // namespace paceline
