#include "paceline/optim/rmsprop.h"

#include "paceline/optim/elementwise.h"

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
  if (!on_device_.is_capturing()) prepare(coefficients);
  const auto of = [&](size_t parameter, const StepCoefficients& c) { return now(c, parameters_[parameter].decayed); };
  update_elementwise(parameters_, on_device_, coefficients,
                     {.launch = rmsprop_update_on_device,
                      .of_chunk =
                          [&](const Chunk& chunk, const StepCoefficients& c) {
                            rmsprop_update(chunk.weights, chunk.gradient, second_.at(chunk), momentum_.at(chunk),
                                           chunk.count, of(chunk.parameter, c));
                          },
                      .of_tensor =
                          [&](const ChunkTable::Whole& whole, const StepCoefficients& c) {
                            update_on_device(whole.weights, whole.gradient, second_.of(whole.parameter),
                                             momentum_.of(whole.parameter), of(whole.parameter, c));
                          }});
}

Optimizer::State Rmsprop::state() const {
  State state;
  second_.add_to(state, parameters_);
  momentum_.add_to(state, parameters_);
  return state;
}

}  // namespace paceline
