#include "paceline/optim/worker_rate.h"

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
  return {.move_dot_change = (move * (now - last_gradient.to(torch::kFloat64) * last_scale)).sum().item<double>(),
          .move_squared = move.square().sum().item<double>(),
          .gradient_squared = now.square().sum().item<double>()};
}

}  // namespace

WorkerRate::WorkerRate(std::vector<Parameter> parameters, const BarzilaiBorweinOptions& options)
    : parameters_(std::move(parameters)),
      options_(options),
      rate_(options),
      last_weights_("last_weights", parameters_),
      last_gradient_("last_gradient", options.exact ? std::vector<Parameter>() : parameters_),
      numbers_(torch::tensor({options.start_rate, 0.0}, torch::kFloat64)) {}

double WorkerRate::next(const Batch& batch, const Probes& probes) {
  const torch::NoGradGuard no_grad;
  double* const numbers = numbers_.data_ptr<double>();
  if (batch.overflow) return rate_.rate();  // the step will be skipped: nothing moved, nothing was learnt
  rate_.set_rate(numbers[0]);
  if (numbers[1] > 0) rate_.update(measure(batch, probes));
  if (options_.safeguard) {
    const double length = gradient_norm(parameters_);
    rate_.set_rate(safeguarded(length * length, probes));
  }
  numbers[0] = rate_.rate();
  remember(batch);
  return rate_.rate();
}

// Each chunk's sums are added in the order of the table, whoever made them.
SecantMeasurement WorkerRate::measure(const Batch& batch, const Probes& probes) const {
  Tensors last_gradient(parameters_.size());
  double scale = 1;
  if (options_.exact) {
    CHECK_TRUE(probes.gradient_at != nullptr, "exact mode needs gradient_at");
    Tensors last_weights;
    for (size_t i = 0; i < parameters_.size(); ++i) last_weights.push_back(last_weights_.of(i));
    const torch::AutoGradMode with_grad(true);
    last_gradient = probes.gradient_at(last_weights);
    CHECK_EQ(last_gradient.size(), parameters_.size());
  } else {
    for (size_t i = 0; i < parameters_.size(); ++i) last_gradient[i] = last_gradient_.of(i);
    scale = previous_gradient_scale(numbers_.data_ptr<double>()[1], batch.samples);
  }
  for (size_t i = 0; i < parameters_.size(); ++i)
    last_gradient[i] = last_gradient[i].defined() ? with_layout_of(parameters_[i].tensor, last_gradient[i].detach())
                                                  : torch::zeros_like(parameters_[i].tensor);

  const ChunkTable table(parameters_);
  std::vector<SecantSums> parts(table.chunks().size());
  table.for_each([&](const Chunk& chunk) {
    parts[chunk.index] =
        secant_sums(chunk.weights, last_weights_.at(chunk), chunk.gradient,
                    last_gradient[chunk.parameter].const_data_ptr<float>() + chunk.begin, scale, chunk.count);
  });
  for (const auto& [i, weights, gradient] : table.others())
    parts.push_back(sums_on_device(weights, last_weights_.of(i), gradient, last_gradient[i], scale));

  SecantMeasurement measured = {
      .noise = batch.noise, .gradients = batch.gradients, .batch_share = batch.samples / batch.data_samples};
  for (const SecantSums& part : parts) {
    measured.move_dot_change += part.move_dot_change;
    measured.move_squared += part.move_squared;
    measured.gradient_squared += part.gradient_squared;
  }
  return measured;
}

double WorkerRate::safeguarded(double gradient_squared, const Probes& probes) const {
  CHECK_TRUE(probes.loss_at != nullptr, "the safeguard needs loss_at");
  const auto loss_after = [&](double rate) {
    Tensors weights;
    for (const Parameter& parameter : parameters_) {
      const torch::Tensor own = parameter.tensor.detach();
      weights.push_back(parameter.tensor.grad().defined() && rate > 0 ? own.sub(parameter.tensor.grad(), rate) : own);
    }
    return probes.loss_at(weights);
  };
  return std::ldexp(rate_.rate(), -armijo_halvings(rate_.rate(), loss_after(0), gradient_squared, loss_after));
}

void WorkerRate::remember(const Batch& batch) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const torch::Tensor& weights = parameters_[i].tensor;
    last_weights_.of(i).copy_(weights);
    if (options_.exact) continue;
    if (weights.grad().defined()) {
      last_gradient_.of(i).copy_(weights.grad());
    } else {
      last_gradient_.of(i).zero_();
    }
  }
  numbers_.data_ptr<double>()[1] = batch.samples;
}

Optimizer::State WorkerRate::state() const {
  Optimizer::State state = {{"rate", numbers_}};
  last_weights_.add_to(state, parameters_);
  last_gradient_.add_to(state, parameters_);
  return state;
}

void WorkerRate::load_state(const Optimizer::State& saved, const std::string& source) {
  copy_state(saved, state(), source);
  rate_.set_rate(*numbers_.data_ptr<double>());
}

}  // namespace paceline
