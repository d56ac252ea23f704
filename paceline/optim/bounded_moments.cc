#include "paceline/optim/bounded_moments.h"

#include <cmath>

#include "paceline/optim/elementwise.h"

namespace paceline {
namespace {

void update_on_device(const torch::Tensor& weights, const torch::Tensor& gradient, const torch::Tensor& first,
                      const torch::Tensor& second, const AdaboundCoefficients& c) {
  const torch::Tensor g = gradient.mul(c.gradient_scale).add_(weights, c.weight_decay);
  first.mul_(c.beta1).add_(g, 1 - c.beta1);
  second.mul_(c.beta2).addcmul_(g, g, 1 - c.beta2);
  const torch::Tensor root = second.sqrt().div_(std::sqrt(c.correction2)).clamp_min_(c.epsilon);
  const torch::Tensor rate = root.reciprocal_().mul_(c.rate).clamp_(c.lower, c.upper);
  weights.addcmul_(rate, first, -1 / c.correction1);
}

}  // namespace

BoundedMoments::BoundedMoments(const std::vector<Parameter>& parameters)
    : first_("first", parameters), second_("second", parameters), on_device_(parameters, {&first_, &second_}) {}

void BoundedMoments::prepare(const AdaboundCoefficients& c) const {
  on_device_.prepare([&](const DeviceTable& table) { adabound_prepare_on_device(table, c); });
}

void BoundedMoments::prepare(const AdaboundByStep& by_step) const {
  on_device_.prepare([&](const DeviceTable& table) { adabound_prepare_on_device(table, by_step); });
}

void BoundedMoments::update(const std::vector<Parameter>& parameters, const AdaboundCoefficients& c,
                            const StepCoefficients& step) {
  update(
      parameters, [&] { return c; }, nullptr, step);
}

void BoundedMoments::update(const std::vector<Parameter>& parameters, const AdaboundByStep& by_step,
                            const StepCount& steps, const StepCoefficients& step) {
  update(
      parameters, [&] { return by_step.at(steps.advance()); }, on_device_.empty() ? nullptr : steps.for_kernel(), step);
}

void BoundedMoments::update(const std::vector<Parameter>& parameters,
                            const std::function<AdaboundCoefficients()>& on_host, int64_t* steps_on_device,
                            const StepCoefficients& step) {
  AdaboundCoefficients c = {};
  const auto of = [&](size_t parameter, const StepCoefficients& unscaled) {
    AdaboundCoefficients own = c;
    own.gradient_scale = unscaled.gradient_scale;
    if (!parameters[parameter].decayed) own.weight_decay = 0;
    return own;
  };
  update_elementwise(parameters, on_device_, step,
                     {.launch = [&](const DeviceTable& table) { adabound_update_on_device(table, steps_on_device); },
                      .of_chunk =
                          [&](const Chunk& chunk, const StepCoefficients& unscaled) {
                            adabound_update(chunk.weights, chunk.gradient, first_.at(chunk), second_.at(chunk),
                                            chunk.count, of(chunk.parameter, unscaled));
                          },
                      .of_tensor =
                          [&](const ChunkTable::Whole& whole, const StepCoefficients& unscaled) {
                            update_on_device(whole.weights, whole.gradient, first_.of(whole.parameter),
                                             second_.of(whole.parameter), of(whole.parameter, unscaled));
                          },
                      .count = [&] { c = on_host(); }});
}

void BoundedMoments::add_to(Optimizer::State& state, const std::vector<Parameter>& parameters) const {
  first_.add_to(state, parameters);
  second_.add_to(state, parameters);
}

}  // namespace paceline
