#include "paceline/optim/rmsprop.h"

namespace paceline {
namespace {

void update_on_device(const torch::Tensor& weights, const torch::Tensor& gradient, const torch::Tensor& second,
                      const torch::Tensor& momentum, const RmspropCoefficients& c) {
  const torch::Tensor g = gradient.mul(c.gradient_scale).add_(weights, c.weight_decay);
  second.mul_(c.alpha).addcmul_(g, g, 1 - c.alpha);
  momentum.mul_(c.momentum).addcdiv_(g, second.sqrt().add_(c.epsilon));
  weights.sub_(momentum, c.rate);
}

}  // namespace

Rmsprop::Rmsprop(std::vector<Parameter> parameters, RmspropOptions options)
    : parameters_(std::move(parameters)),
      second_("second", parameters_),
      momentum_("momentum", parameters_),
      on_device_(parameters_, {&second_, &momentum_}),
      options_(options) {}

RmspropCoefficients Rmsprop::now(const StepCoefficients& coefficients, bool decayed) const {
  return {.rate = coefficients.rate,
          .alpha = options_.alpha,
          .epsilon = options_.epsilon,
          .momentum = coefficients.momentum,
          .weight_decay = decayed ? options_.weight_decay : 0,
          .gradient_scale = coefficients.gradient_scale};
}

void Rmsprop::prepare(const StepCoefficients& coefficients) {
  on_device_.prepare([&](const DeviceTable& table) { rmsprop_prepare_on_device(table, now(coefficients, true)); });
}

void Rmsprop::step(const StepCoefficients& coefficients) {
  const torch::NoGradGuard no_grad;
  if (!on_device_.is_capturing()) prepare(coefficients);
  on_device_.update(parameters_, coefficients, rmsprop_update_on_device);
  if (on_device_.has_all()) return;

  const auto own = read_scaling(coefficients);
  if (!own) return;
  const auto of = [&](size_t parameter) { return now(*own, parameters_[parameter].decayed); };
  const ChunkTable table(parameters_);
  table.for_each([&](const Chunk& chunk) {
    rmsprop_update(chunk.weights, chunk.gradient, second_.at(chunk), momentum_.at(chunk), chunk.count,
                   of(chunk.parameter));
  });
  for (const auto& [i, weights, gradient] : table.others()) {
    if (!on_device_.contains(i)) update_on_device(weights, gradient, second_.of(i), momentum_.of(i), of(i));
  }
  write_halves(parameters_);
}

Optimizer::State Rmsprop::state() const {
  State state;
  second_.add_to(state, parameters_);
  momentum_.add_to(state, parameters_);
  return state;
}

}  // namespace paceline
