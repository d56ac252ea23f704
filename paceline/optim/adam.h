// Adam, and AdamW with decoupled weight decay; formulas in kernels/adam.h.
#pragma once

#include "paceline/kernels/adam.h"
#include "paceline/optim/step_count.h"

namespace paceline {

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;  // AdamW
};

class Adam : public Optimizer {
 public:
  Adam(std::vector<Parameter> parameters, AdamOptions options);
  void step(const StepCoefficients& coefficients) override;  // has no use for the momentum
  void prepare(const StepCoefficients& coefficients) override;
  std::optional<int64_t> capture_stage(const StepCoefficients&) const override { return on_device_.capture_stage(); }
  State state() const override;  // "first/<parameter>", "second/<parameter>", "step"

 private:
  AdamCoefficients given(const StepCoefficients& coefficients) const;  // of no step in particular

  std::vector<Parameter> parameters_;
  StateTensors first_, second_;
  DeviceParameters on_device_;
  StepCount steps_;
  AdamOptions options_;
};

}  // namespace paceline
