// RMSProp with momentum, as PyTorch has it; the formula is in kernels/rmsprop.h.
#pragma once

#include "paceline/kernels/rmsprop.h"
#include "paceline/optim/device_parameters.h"

namespace paceline {

struct RmspropOptions {
  double alpha = 0.99;
  double epsilon = 1e-8;
  double weight_decay = 0;
};

class Rmsprop : public Optimizer {
 public:
  Rmsprop(std::vector<Parameter> parameters, RmspropOptions options);
  void step(const StepCoefficients& coefficients) override;
  void prepare(const StepCoefficients& coefficients) override;
  std::optional<int64_t> capture_stage(const StepCoefficients&) const override { return on_device_.capture_stage(); }
  State state() const override;  // "second/<parameter>", "momentum/<parameter>"

 private:
  RmspropCoefficients now(const StepCoefficients& coefficients, bool decayed) const;

  std::vector<Parameter> parameters_;
  StateTensors second_, momentum_;
  DeviceParameters on_device_;
  RmspropOptions options_;
};

}  // namespace paceline
