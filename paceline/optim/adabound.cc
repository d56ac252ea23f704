#include "paceline/optim/adabound.h"

#include <cmath>

#include "paceline/kernels/adabound_bounds.h"

namespace paceline {

Adabound::Adabound(std::vector<Parameter> parameters, AdaboundOptions options)
    : parameters_(std::move(parameters)), moments_(parameters_), options_(options) {}

AdaboundCoefficients Adabound::now(const StepCoefficients& coefficients) const {
  const auto step = static_cast<double>(steps_.count());
  const double final_rate = options_.final_rate * (coefficients.rate / options_.base_rate);
  const RateBounds bounds = adabound_bounds(final_rate, options_.gamma, step);
  return {.rate = coefficients.rate,
          .lower = bounds.lower,
          .upper = bounds.upper,
          .beta1 = options_.beta1,
          .beta2 = options_.beta2,
          .epsilon = options_.epsilon,
          .weight_decay = options_.weight_decay,
          .correction1 = 1 - std::pow(options_.beta1, step),
          .correction2 = 1 - std::pow(options_.beta2, step),
          .gradient_scale = coefficients.gradient_scale};
}

void Adabound::prepare(const StepCoefficients& coefficients) {
  steps_.advance();
  moments_.prepare(now(coefficients));
}

void Adabound::step(const StepCoefficients& coefficients) {
  if (!moments_.is_capturing()) prepare(coefficients);
  moments_.update(parameters_, now(coefficients), coefficients);
}

Optimizer::State Adabound::state() const {
  State state;
  moments_.add_to(state, parameters_);
  steps_.add_to(state);
  return state;
}

}  // namespace paceline
