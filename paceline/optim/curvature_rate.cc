#include "paceline/optim/curvature_rate.h"

#include <cmath>

#include "paceline/core/check.h"
#include "paceline/kernels/secant.h"
#include "paceline/optim/gradient_norm.h"

namespace paceline {
namespace {

SecantSums sums_on_device(const torch::Tensor& weights, const torch::Tensor& last_weights,
                          const torch::Tensor& gradient, const torch::Tensor& last_gradient, double last_scale) {
  const torch::Tensor move = (weights - last_weights).to(torch::kFloat64);
  const torch::Tensor now = gradient.to(torch::kFloat64);
  const torch::Tensor last = last_gradient.to(torch::kFloat64) * last_scale;
  return {.move_dot_change = (move * (now - last)).sum().item<double>(),
          .move_dot_previous = (move * last).sum().item<double>(),
          .move_squared = move.square().sum().item<double>(),
          .gradient_squared = now.square().sum().item<double>()};
}

}  // namespace

CurvatureRate::CurvatureRate(std::vector<Parameter> parameters, const BarzilaiBorweinOptions& options)
    : parameters_(std::move(parameters)),
      options_(options),
      rate_(options),
      last_weights_("last_weights", parameters_),
      last_gradient_("last_gradient", options.secant == Secant::cheap ? parameters_ : std::vector<Parameter>()),
      numbers_(torch::zeros({numbers}, torch::kFloat64)) {
  keep_what_was_learnt();
}

// The tensors may have been loaded since.
void CurvatureRate::recall() {
  rate_.restore({.rate = number(rate_now),
                 .followed = number(followed),
                 .downhill = number(downhill),
                 .curvature = number(curvature)});
}

void CurvatureRate::keep_what_was_learnt() {
  const BarzilaiBorweinRate::Learnt& learnt = rate_.learnt();
  number(rate_now) = learnt.rate;
  number(followed) = learnt.followed;
  number(downhill) = learnt.downhill;
  number(curvature) = learnt.curvature;
}

double CurvatureRate::next(const Batch& batch, const Probes& probes) {
  const torch::NoGradGuard no_grad;
  recall();
  if (batch.overflow) return rate_.rate();  // the step will be skipped: nothing moved, nothing was learnt
  const auto step = static_cast<int64_t>(number(steps)++);
  if (measures_in(step, options_)) {
    if (number(last_samples) > 0) rate_.update(measure(batch, probes));
    if (options_.safeguard) rate_.set_rate(safeguarded(batch, probes));
  }
  keep_what_was_learnt();
  number(last_samples) = 0;
  if (measures_in(step + 1, options_)) {
    remember();
    number(last_samples) = batch.samples;
    number(last_share) = batch.schedule_share;
  }
  return rate_.rate();
}

// The weights after a step of this rate.
CurvatureRate::Tensors CurvatureRate::stepped(double rate) const {
  Tensors weights;
  for (const Parameter& parameter : parameters_) {
    const torch::Tensor own = parameter.tensor.detach();
    weights.push_back(parameter.tensor.grad().defined() && rate > 0 ? own.sub(parameter.tensor.grad(), rate) : own);
  }
  return weights;
}

// Each chunk's sums are added in the order of the table, whoever made them.
SecantMeasurement CurvatureRate::measure(const Batch& batch, const Probes& probes) const {
  Tensors weights, gradient;
  double scale = 1;
  for (size_t i = 0; i < parameters_.size(); ++i) weights.push_back(last_weights_.of(i));
  if (options_.secant == Secant::cheap) {
    for (size_t i = 0; i < parameters_.size(); ++i) gradient.push_back(last_gradient_.of(i));
    scale = previous_gradient_scale(number(last_samples), batch.samples);
  } else {
    CHECK_TRUE(probes.gradient_at != nullptr, "a second gradient of the batch needs gradient_at");
    const torch::AutoGradMode with_grad(true);
    gradient = probes.gradient_at(weights);
    CHECK_EQ(gradient.size(), parameters_.size());
  }
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const torch::Tensor& own = parameters_[i].tensor;
    weights[i] = with_layout_of(own, weights[i]);
    gradient[i] = gradient[i].defined() ? with_layout_of(own, gradient[i].detach()) : torch::zeros_like(own);
  }

  const ChunkTable table(parameters_);
  std::vector<SecantSums> parts(table.chunks().size());
  table.for_each([&](const Chunk& chunk) {
    parts[chunk.index] =
        secant_sums(chunk.weights, weights[chunk.parameter].const_data_ptr<float>() + chunk.begin, chunk.gradient,
                    gradient[chunk.parameter].const_data_ptr<float>() + chunk.begin, scale, chunk.count);
  });
  for (const auto& [i, own_weights, own_gradient] : table.others())
    parts.push_back(sums_on_device(own_weights, weights[i], own_gradient, gradient[i], scale));

  SecantMeasurement measured = {.move_rate = rate_.rate() * number(last_share),
                                .noise = batch.noise,
                                .gradients = batch.gradients,
                                .batch_share = batch.samples / batch.data_samples};
  for (const SecantSums& part : parts) {
    measured.move_dot_change += part.move_dot_change;
    measured.move_dot_previous += part.move_dot_previous;
    measured.move_squared += part.move_squared;
    measured.gradient_squared += part.gradient_squared;
  }
  return measured;
}

double CurvatureRate::safeguarded(const Batch& batch, const Probes& probes) const {
  CHECK_TRUE(probes.loss_at != nullptr, "the safeguard needs loss_at");
  const auto loss_after = [&](double rate) { return probes.loss_at(stepped(rate)); };
  const double length = gradient_norm(parameters_), loss = probes.loss ? probes.loss() : loss_after(0);
  const double taken = rate_.rate() * batch.schedule_share * batch.gradient_scale;
  return std::ldexp(rate_.rate(), -armijo_halvings(taken, loss, length * length, loss_after));
}

void CurvatureRate::remember() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const torch::Tensor& weights = parameters_[i].tensor;
    last_weights_.of(i).copy_(weights);
    if (options_.secant != Secant::cheap) continue;
    if (weights.grad().defined()) {
      last_gradient_.of(i).copy_(weights.grad());
    } else {
      last_gradient_.of(i).zero_();
    }
  }
}

void CurvatureRate::add_to(Optimizer::State& state) const {
  state.emplace("found_rate", numbers_);
  last_weights_.add_to(state, parameters_);
  if (options_.secant == Secant::cheap) last_gradient_.add_to(state, parameters_);
}

}  // namespace paceline
