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
  const torch::NoGradGuard no_grad;
  if (!on_device_.is_capturing()) prepare(coefficients);
  on_device_.update(parameters_, coefficients, sgd_update_on_device);
  if (on_device_.has_all()) return;

  const auto own = read_scaling(coefficients);
  if (!own) return;
  const auto of = [&](size_t parameter) { return sgd_coefficients(*own, options_, parameters_[parameter].decayed); };
  const ChunkTable table(parameters_);
  table.for_each([&](const Chunk& chunk) {
    sgd_update(chunk.weights, chunk.gradient, momentum_.at(chunk), chunk.count, of(chunk.parameter));
  });
  for (const auto& [i, weights, gradient] : table.others()) {
    if (!on_device_.contains(i)) update_on_device(weights, gradient, momentum_.of(i), of(i));
  }
  write_halves(parameters_);
}

Optimizer::State Sgd::state() const {
  State state;
  momentum_.add_to(state, parameters_);
  return state;
}

}  // namespace paceline
