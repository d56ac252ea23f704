#include "paceline/optim/adabound.h"

namespace paceline {

Adabound::Adabound(std::vector<Parameter> parameters, AdaboundOptions options)
    : parameters_(std::move(parameters)),
      moments_(parameters_),
      steps_(moments_.make_step_count()),
      options_(options) {}

AdaboundByStep Adabound::given(const StepCoefficients& coefficients) const {
  return {.c = {.rate = coefficients.rate,
                .lower = 0,
                .upper = 0,
                .beta1 = options_.beta1,
                .beta2 = options_.beta2,
                .epsilon = options_.epsilon,
                .weight_decay = options_.weight_decay,
                .correction1 = 1,
                .correction2 = 1,
                .gradient_scale = coefficients.gradient_scale},
          .final_rate = options_.final_rate * (coefficients.rate / options_.base_rate),
          .gamma = options_.gamma};
}

void Adabound::prepare(const StepCoefficients& coefficients) { moments_.prepare(given(coefficients)); }

void Adabound::step(const StepCoefficients& coefficients) {
  if (!moments_.is_capturing()) prepare(coefficients);
  moments_.update(parameters_, given(coefficients), steps_, coefficients);
}

Optimizer::State Adabound::state() const {
  State state;
  moments_.add_to(state, parameters_);
  steps_.add_to(state);
  return state;
}

}  // namespace paceline
