// AdaBound (Luo 2019), with bias correction: begins as Adam, ends as SGD. Formulas in kernels/adabound.h and
// kernels/adabound_bounds.h.
#pragma once

#include "paceline/optim/bounded_moments.h"

namespace paceline {

struct AdaboundOptions {
  // The bounds follow the schedule: they close in on final_rate · (rate of the step / base_rate). With a constant
  // schedule that is final_rate; otherwise a decay of the rate would have no effect once the bounds are close.
  double base_rate = 1e-3;
  double final_rate = 0.1;
  double gamma = 1e-3;  // how fast they close in, per step
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
};

class Adabound : public Optimizer {
 public:
  Adabound(std::vector<Parameter> parameters, AdaboundOptions options);
  void step(const StepCoefficients& coefficients) override;  // has no use for the momentum
  void prepare(const StepCoefficients& coefficients) override;
  std::optional<int64_t> capture_stage(const StepCoefficients&) const override { return moments_.capture_stage(); }
  State state() const override;  // "first/<parameter>", "second/<parameter>", "step"

 private:
  AdaboundByStep given(const StepCoefficients& coefficients) const;

  std::vector<Parameter> parameters_;
  BoundedMoments moments_;
  StepCount steps_;
  AdaboundOptions options_;
};

}  // namespace paceline
