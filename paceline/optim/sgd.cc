#include "paceline/optim/sgd.h"

#include <ATen/Parallel.h>

#include "paceline/kernels/sgd.h"
#include "paceline/optim/gradient_norm.h"

namespace paceline {
namespace {

constexpr int64_t kGrain = 1 << 15;  // elements per task: below this a second thread costs more than it brings

void update_on_cpu(const torch::Tensor& weights, const torch::Tensor& gradient, const torch::Tensor& momentum,
                   const SgdCoefficients& c) {
  float* w = weights.data_ptr<float>();
  const float* g = gradient.const_data_ptr<float>();
  float* u = momentum.data_ptr<float>();
  at::parallel_for(0, weights.numel(), kGrain, [&](int64_t begin, int64_t end) {
    sgd_update(w + begin, g + begin, u + begin, static_cast<size_t>(end - begin), c);
  });
}

void update_on_device(const torch::Tensor& weights, const torch::Tensor& gradient, const torch::Tensor& momentum,
                      const SgdCoefficients& c) {
  const torch::Tensor g = gradient.mul(c.gradient_scale).add_(weights, c.weight_decay);
  momentum.mul_(c.momentum).add_(g);
  weights.sub_(c.nesterov ? g.add_(momentum, c.momentum) : momentum, c.rate);
}

}  // namespace

Sgd::Sgd(std::vector<Parameter> parameters, SgdOptions options)
    : parameters_(std::move(parameters)), options_(options) {
  for (const Parameter& parameter : parameters_) momentum_.push_back(torch::zeros_like(parameter.tensor));
}

void Sgd::step(const StepCoefficients& coefficients) {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const torch::Tensor& weights = parameters_[i].tensor;
    if (!weights.grad().defined()) continue;
    const torch::Tensor gradient = with_layout_of(weights, weights.grad());
    const SgdCoefficients c = {
        .rate = static_cast<float>(coefficients.rate),
        .momentum = static_cast<float>(coefficients.momentum),
        .weight_decay = parameters_[i].decayed ? static_cast<float>(options_.weight_decay) : 0.0f,
        .gradient_scale = static_cast<float>(coefficients.gradient_scale),
        .nesterov = options_.nesterov};
    const auto update = weights.is_cpu() ? update_on_cpu : update_on_device;
    update(weights, gradient, momentum_[i], c);
  }
}

Optimizer::State Sgd::state() const {
  State state;
  for (size_t i = 0; i < parameters_.size(); ++i) state.emplace("momentum/" + parameters_[i].name, momentum_[i]);
  return state;
}

}  // namespace paceline
