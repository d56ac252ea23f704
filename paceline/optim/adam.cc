#include "paceline/optim/adam.h"

#include <cmath>

#include "paceline/optim/elementwise.h"

namespace paceline {
namespace {

void update_on_device(const torch::Tensor& weights, const torch::Tensor& gradient, const torch::Tensor& first,
                      const torch::Tensor& second, const AdamCoefficients& c) {
  torch::Tensor g = gradient.mul(c.gradient_scale);
  if (c.decoupled) {
    weights.mul_(1 - c.rate * c.weight_decay);
  } else {
    g.add_(weights, c.weight_decay);
  }
  first.mul_(c.beta1).add_(g, 1 - c.beta1);
  second.mul_(c.beta2).addcmul_(g, g, 1 - c.beta2);
  const torch::Tensor root = second.sqrt().div_(std::sqrt(c.correction2)).add_(c.epsilon);
  weights.addcdiv_(first, root, -c.rate / c.correction1);
}

}  // namespace

Adam::Adam(std::vector<Parameter> parameters, AdamOptions options)
    : parameters_(std::move(parameters)),
      first_("first", parameters_),
      second_("second", parameters_),
      on_device_(parameters_, {&first_, &second_}),
      steps_(on_device_),
      options_(options) {}

AdamCoefficients Adam::given(const StepCoefficients& coefficients) const {
  return {.rate = coefficients.rate,
          .beta1 = options_.beta1,
          .beta2 = options_.beta2,
          .epsilon = options_.epsilon,
          .weight_decay = options_.weight_decay,
          .decoupled = options_.decoupled,
          .correction1 = 1,
          .correction2 = 1,
          .gradient_scale = coefficients.gradient_scale};
}

void Adam::prepare(const StepCoefficients& coefficients) {
  on_device_.prepare([&](const DeviceTable& table) { adam_prepare_on_device(table, given(coefficients)); });
}

void Adam::step(const StepCoefficients& coefficients) {
  if (!on_device_.is_capturing()) prepare(coefficients);
  int64_t number = 0;
  const auto of = [&](size_t parameter, const StepCoefficients& c) {
    AdamCoefficients now = at_step(given(c), number);
    if (!parameters_[parameter].decayed) now.weight_decay = 0;
    return now;
  };
  update_elementwise(parameters_, on_device_, coefficients,
                     {.launch = [&](const DeviceTable& table) { adam_update_on_device(table, steps_.for_kernel()); },
                      .of_chunk =
                          [&](const Chunk& chunk, const StepCoefficients& c) {
                            adam_update(chunk.weights, chunk.gradient, first_.at(chunk), second_.at(chunk), chunk.count,
                                        of(chunk.parameter, c));
                          },
                      .of_tensor =
                          [&](const ChunkTable::Whole& whole, const StepCoefficients& c) {
                            update_on_device(whole.weights, whole.gradient, first_.of(whole.parameter),
                                             second_.of(whole.parameter), of(whole.parameter, c));
                          },
                      .count = [&] { number = steps_.advance(); }});
}

Optimizer::State Adam::state() const {
  State state;
  first_.add_to(state, parameters_);
  second_.add_to(state, parameters_);
  steps_.add_to(state);
  return state;
}

}  // namespace paceline
