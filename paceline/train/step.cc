#include "paceline/train/step.h"

#include <cmath>

#include "paceline/collectives/group_text.h"
#include "paceline/collectives/sum_over_ranks.h"
#include "paceline/optim/gradient_norm.h"
#include "paceline/precision/finite_check.h"
#include "paceline/train/divergence.h"
#include "paceline/train/dropout_seed.h"
#include "paceline/train/forward_search.h"
#include "paceline/train/step_graph.h"

namespace paceline {

TrainStep::TrainStep(std::shared_ptr<Model> model, Optimizer& optimizer, Group& group, const Recipe& recipe,
                     Reducer& reducer, Timeline* timeline, LossScaler* scaler, std::function<void()> before_search)
    : model_(std::move(model)),
      optimizer_(optimizer),
      group_(group),
      recipe_(recipe),
      reducer_(reducer),
      timeline_(timeline),
      scaler_(scaler),
      before_search_(std::move(before_search)),
      pass_(*model_, recipe, scaler, timeline),
      parameters_(parameters_of(*model_)) {
  if (scaler_ != nullptr) undo_.emplace(*model_, reducer_);
  if (finds_rate(recipe)) probes_.emplace(*model_, reducer_, parameters_);
}

StepOutcome TrainStep::make(const StepInputs& inputs) {
  StepRiders rode = {};
  StepOutcome outcome = compute(inputs, rode);
  outcome.stop_asked = rode[stops] > 0;
  apply(inputs, rode, outcome);
  return outcome;
}

StepOutcome TrainStep::compute(const StepInputs& inputs, StepRiders& rode) {
  const StepStream stream(device());
  if (undo_) undo_->remember();
  StepOutcome outcome = add_gradients(inputs, rode);
  const int64_t wait_ns = clock_.now_ns();
  reducer_.finish(rode);
  note_step_part(timeline_, "wait for gradients", wait_ns, clock_.now_ns());
  return outcome;
}

void TrainStep::apply(const StepInputs& inputs, const StepRiders& rode, StepOutcome& outcome) {
  const StepStream stream(device());
  const int64_t update_ns = clock_.now_ns();
  judge(inputs, rode[losses_not_finite] == 0, outcome);
  update(inputs, outcome);
  note_step_part(timeline_, "update", update_ns, clock_.now_ns());
}

// The gradients of this rank, which the reducer has begun to sum.
StepOutcome TrainStep::add_gradients(const StepInputs& inputs, StepRiders& rode) {
  reducer_.begin();
  seed_dropout(recipe_.train.seed, inputs.step, inputs.rank);
  const PassSums sums = pass_.gradients(inputs.batch, inputs.global_count, [this] { reducer_.expect_last_pass(); });
  rode[stops] = inputs.stop.stop_requested() ? 1 : 0;
  if (sums.loss.is_cpu()) rode[losses_not_finite] = std::isfinite(sums.loss.item<double>()) ? 0 : 1;
  return {sums.loss, sums.correct, inputs.batch.labels.size(0)};
}

void TrainStep::fail_again(const StepInputs& inputs, const std::string& what) {
  const StepStream stream(device());
  StepRiders rode = {};
  add_gradients(inputs, rode);
  reducer_.finish(rode);
  fail(inputs, what);
}

// The same on every rank, because the sums are.
void TrainStep::judge(const StepInputs& inputs, bool losses_finite, StepOutcome& outcome) {
  std::vector<torch::Tensor> gradients;
  for (const Parameter& parameter : parameters_)
    if (parameter.tensor.grad().defined()) gradients.push_back(parameter.tensor.grad());
  if (scaler_ == nullptr) {
    const torch::Tensor found = any_not_finite(gradients, device());
    if (!found.is_cpu()) {
      diverged_ = diverged_.defined() ? torch::maximum(diverged_, found) : found;
      outcome.not_finite = diverged_;
    } else if (!losses_finite || found.item<float>() > 0) {
      fail(inputs, losses_finite ? "a gradient is not finite" : "the loss is not finite");
    }
    return;
  }
  const double before = scaler_->state().scale;
  scaler_->inspect(gradients);
  try {
    outcome.skipped = !scaler_->accept(/*known=*/!losses_finite);
  } catch (const TrainingError& too_many) {
    fail(inputs, too_many.what());
  }
  if (outcome.skipped) undo_->undo();
  scale_debts(reducer_, scaler_->state().scale / before);
}

void TrainStep::update(const StepInputs& inputs, StepOutcome& outcome) {
  const double unscale = scaler_ ? scaler_->gradient_scale() : 1, max_norm = recipe_.optimizer.clip_norm;
  const bool clips = max_norm > 0 && !outcome.skipped;
  const RateProbes probes = probes_ ? probes_of(inputs, outcome) : RateProbes();
  const StepCoefficients coefficients = {
      .rate = inputs.rate,
      .momentum = inputs.momentum,
      .gradient_scale = clips ? unscale * clip_scale(unscale * gradient_norm(parameters_), max_norm) : unscale,
      .epoch = inputs.epoch,
      .found_inf = diverged_,
      .probes = &probes};
  std::optional<UpdateDiagnosis> diagnosis;
  if (inputs.diagnose) diagnosis.emplace(parameters_, recipe_.optimizer, coefficients, unscale);
  if (!outcome.skipped) optimizer_.step(coefficients);
  if (diagnosis) outcome.layers = diagnosis->finish();
}

RateProbes TrainStep::probes_of(const StepInputs& inputs, const StepOutcome& outcome) {
  const auto gradient_again = [this, &inputs] {
    StepRiders rode = {};
    add_gradients(inputs, rode);
    reducer_.finish(rode);
  };
  using Tensors = CurvatureRate::Tensors;
  return {.batch = {.samples = static_cast<double>(inputs.global_count)},
          .probes = {.gradient_at =
                         [=, this](const Tensors& weights) { return probes_->gradient_at(weights, gradient_again); },
                     .loss_at =
                         [this, &inputs](const Tensors& weights) {
                           return probes_->loss_at(weights, [&] { return loss_again(inputs); });
                         },
                     .loss = [this, &inputs, &outcome] { return mean_over_ranks(inputs, outcome.loss_sum); }}};
}

double TrainStep::loss_again(const StepInputs& inputs) {
  seed_dropout(recipe_.train.seed, inputs.step, inputs.rank);
  return mean_over_ranks(inputs, pass_.loss(inputs.batch));
}

double TrainStep::mean_over_ranks(const StepInputs& inputs, const torch::Tensor& loss_sum) {
  std::vector<double> sum = {loss_sum.item<double>()};
  sum_over_ranks(group_, view(sum));
  return sum[0] / static_cast<double>(inputs.global_count);
}

void TrainStep::fail(const StepInputs& inputs, const std::string& what) {
  before_search_();
  throw DivergenceError(fmt::format("step {} (epoch {:.4g}): {}: the run diverged{}; {}", inputs.step + 1, inputs.epoch,
                                    what, where_it_began(inputs), kAgainstDivergence));
}

// Every rank looks at its own samples; what the first found is told by all.
std::string TrainStep::where_it_began(const StepInputs& inputs) {
  std::string found;
  seed_dropout(recipe_.train.seed, inputs.step, inputs.rank);
  pass_.forwards(inputs.batch, [&](const torch::Tensor& images, const std::function<void()>& forward) {
    const bool readable = count_not_finite(images) == 0;
    const auto layer = first_layer_not_finite(*model_, forward);
    if (layer && found.empty()) found = readable ? *layer : "the input";
  });
  const std::vector<std::string> of_ranks = gather_texts(group_, found);
  for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
    if (of_ranks[rank].empty()) continue;
    const std::string where = of_ranks.size() > 1 ? fmt::format(" on rank {}", rank) : "";
    if (of_ranks[rank] == "the input") return fmt::format("; the input itself is not finite{}", where);
    return fmt::format("; {} is the first layer whose output is not finite{}", of_ranks[rank], where);
  }
  std::vector<std::string> bad;
  for (const Parameter& parameter : parameters_)
    if (parameter.tensor.grad().defined() && count_not_finite(parameter.tensor.grad()) > 0)
      bad.push_back(parameter.name);
  if (bad.empty()) return "; every layer's output and gradient is finite, only the loss is too large";
  return fmt::format("; all outputs are finite, but not the gradient of {}{}", bad.front(),
                     bad.size() == 1 ? "" : fmt::format(" (and {} after it, up to {})", bad.size() - 1, bad.back()));
}

}  // namespace paceline
