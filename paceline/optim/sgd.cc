#include "paceline/optim/sgd.h"

#include "paceline/kernels/sgd.h"
#include "paceline/optim/elementwise.h"

namespace paceline {
namespace {

void update_on_device(const torch::Tensor& weights, const torch::Tensor& gradient, const torch::Tensor& momentum,
                      const SgdCoefficients& c) {
  const torch::Tensor g = gradient.mul(c.gradient_scale).add_(weights, c.weight_decay);
  momentum.mul_(c.momentum).add_(g);
  weights.sub_(c.nesterov ? g.add_(momentum, c.momentum) : momentum, c.rate);
}

SgdCoefficients sgd_coefficients(const StepCoefficients& c, const SgdOptions& o, bool decayed) {
  return {.rate = static_cast<float>(c.rate),
          .momentum = static_cast<float>(c.momentum),
          .weight_decay = decayed ? static_cast<float>(o.weight_decay) : 0.0f,
          .gradient_scale = static_cast<float>(c.gradient_scale),
          .nesterov = o.nesterov};
}

}  // namespace

Sgd::Sgd(std::vector<Parameter> parameters, SgdOptions options)
    : parameters_(std::move(parameters)),
      momentum_("momentum", parameters_),
      on_device_(parameters_, {&momentum_}),
      options_(options) {}

void Sgd::prepare(const StepCoefficients& coefficients) {
  on_device_.prepare(
      [&](const DeviceTable& table) { sgd_prepare_on_device(table, sgd_coefficients(coefficients, options_, true)); });
}

void Sgd::step(const StepCoefficients& coefficients) {
  if (!on_device_.is_capturing()) prepare(coefficients);
  const auto of = [&](size_t parameter, const StepCoefficients& c) {
    return sgd_coefficients(c, options_, parameters_[parameter].decayed);
  };
  update_elementwise(
      parameters_, on_device_, coefficients,
      {.launch = sgd_update_on_device,
       .of_chunk =
           [&](const Chunk& chunk, const StepCoefficients& c) {
             sgd_update(chunk.weights, chunk.gradient, momentum_.at(chunk), chunk.count, of(chunk.parameter, c));
           },
       .of_tensor =
           [&](const ChunkTable::Whole& whole, const StepCoefficients& c) {
             update_on_device(whole.weights, whole.gradient, momentum_.of(whole.parameter), of(whole.parameter, c));
           }});
}

Optimizer::State Sgd::state() const {
  State state;
  momentum_.add_to(state, parameters_);
  return state;
}

}  // namespace paceline
