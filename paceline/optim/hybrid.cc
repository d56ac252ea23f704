#include "paceline/optim/hybrid.h"

#include <algorithm>

#include "paceline/kernels/adabound_bounds.h"

namespace paceline {

Hybrid::Hybrid(std::vector<Parameter> parameters, HybridOptions options)
    : parameters_(std::move(parameters)), options_(options) {
  begin_warmup();
}

void Hybrid::begin_warmup() {
  lars_.reset();
  moments_.emplace(parameters_);
}

void Hybrid::hand_over() {
  moments_.reset();
  lars_.emplace(parameters_, options_.lars);
}

void Hybrid::step(const StepCoefficients& coefficients) {
  if (moments_ && coefficients.epoch >= options_.warmup_epochs) hand_over();
  if (lars_) {
    lars_->step(coefficients);
    return;
  }
  const RateBounds bounds =
      warmup_bounds(coefficients.rate, options_.beta2, coefficients.epoch, options_.warmup_epochs);
  moments_->step(parameters_, {.rate = options_.adaptive_rate,
                               .lower = bounds.lower,
                               .upper = bounds.upper,
                               .beta1 = options_.beta1,
                               .beta2 = options_.beta2,
                               .epsilon = options_.epsilon,
                               .weight_decay = options_.lars.weight_decay,
                               .correction1 = 1,
                               .correction2 = 1,
                               .gradient_scale = coefficients.gradient_scale});
}

Optimizer::State Hybrid::state() const {
  if (lars_) return lars_->state();
  State state;
  moments_->add_to(state, parameters_);
  return state;
}

void Hybrid::load_state(const State& saved, const std::string& source) {
  const bool second_stage = std::ranges::any_of(
      saved, [](const auto& item) { return item.first.starts_with("momentum/") || item.first == "rate"; });
  if (second_stage && moments_) hand_over();
  if (!second_stage && lars_) begin_warmup();
  Optimizer::load_state(saved, source);
}

}  // namespace paceline
