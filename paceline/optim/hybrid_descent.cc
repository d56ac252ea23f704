#include "paceline/optim/hybrid_descent.h"

#include <algorithm>

#include "paceline/core/check.h"
#include "paceline/kernels/adabound_bounds.h"

namespace paceline {

HybridDescent::HybridDescent(std::vector<Parameter> parameters, HybridDescentOptions options)
    : parameters_(std::move(parameters)), options_(options) {
  begin_warmup();
}

void HybridDescent::begin_warmup() {
  lars_.reset();
  moments_.emplace(parameters_);
}

void HybridDescent::hand_over() {
  moments_.reset();
  lars_.emplace(parameters_, options_.lars);
}

AdaboundCoefficients HybridDescent::warmup(const StepCoefficients& coefficients) const {
  const RateBounds bounds =
      warmup_bounds(coefficients.rate, options_.beta2, coefficients.epoch, options_.warmup_epochs);
  return {.rate = options_.adaptive_rate,
          .lower = bounds.lower,
          .upper = bounds.upper,
          .beta1 = options_.beta1,
          .beta2 = options_.beta2,
          .epsilon = options_.epsilon,
          .weight_decay = 0,
          .correction1 = 1,
          .correction2 = 1,
          .gradient_scale = coefficients.gradient_scale};
}

void HybridDescent::prepare(const StepCoefficients& coefficients) {
  if (lars_) return lars_->prepare(coefficients);
  CHECK_TRUE(!is_over(coefficients), "the warm-up is over at epoch {}: take a step, and capture it again",
             coefficients.epoch);
  moments_->prepare(warmup(coefficients));
}

std::optional<int64_t> HybridDescent::capture_stage(const StepCoefficients& coefficients) const {
  if (lars_) return lars_->capture_stage(coefficients) ? std::optional<int64_t>(1) : std::nullopt;
  return is_over(coefficients) ? std::nullopt : moments_->capture_stage();
}

void HybridDescent::step(const StepCoefficients& coefficients) {
  if (moments_ && is_over(coefficients)) hand_over();
  if (lars_) return lars_->step(coefficients);
  if (!moments_->is_capturing()) prepare(coefficients);
  moments_->update(parameters_, warmup(coefficients), coefficients);
}

Optimizer::State HybridDescent::state() const {
  if (lars_) return lars_->state();
  State state;
  moments_->add_to(state, parameters_);
  return state;
}

void HybridDescent::load_state(const State& saved, const std::string& source) {
  const bool second_stage = std::ranges::any_of(
      saved, [](const auto& item) { return item.first.starts_with("momentum/") || item.first == "rate"; });
  if (second_stage && moments_) hand_over();
  if (!second_stage && lars_) begin_warmup();
  Optimizer::load_state(saved, source);
}

}  // namespace paceline
