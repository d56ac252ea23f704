#include "paceline/optim/sgd.h"

#include "paceline/kernels/sgd.h"

namespace paceline {
namespace {

void update_on_device(const torch::Tensor& weights, const torch::Tensor& gradient, const torch::Tensor& momentum,
                      const SgdCoefficients& c) {
  const torch::Tensor g = gradient.mul(c.gradient_scale).add_(weights, c.weight_decay);
  momentum.mul_(c.momentum).add_(g);
  weights.sub_(c.nesterov ? g.add_(momentum, c.momentum) : momentum, c.rate);
}

}  // namespace

Sgd::Sgd(std::vector<Parameter> parameters, SgdOptions options)
    : parameters_(std::move(parameters)), momentum_("momentum", parameters_), options_(options) {}

void Sgd::step(const StepCoefficients& coefficients) {
  const torch::NoGradGuard no_grad;
  const auto of = [&](size_t parameter) -> SgdCoefficients {
    return {.rate = static_cast<float>(coefficients.rate),
            .momentum = static_cast<float>(coefficients.momentum),
            .weight_decay = parameters_[parameter].decayed ? static_cast<float>(options_.weight_decay) : 0.0f,
            .gradient_scale = static_cast<float>(coefficients.gradient_scale),
            .nesterov = options_.nesterov};
  };
  const ChunkTable table(parameters_);
  table.for_each([&](const Chunk& chunk) {
    sgd_update(chunk.weights, chunk.gradient, momentum_.at(chunk), chunk.count, of(chunk.parameter));
  });
  for (const auto& [i, weights, gradient] : table.others()) update_on_device(weights, gradient, momentum_.of(i), of(i));
}

Optimizer::State Sgd::state() const {
  State state;
  momentum_.add_to(state, parameters_);
  return state;
}

}  // namespace paceline
