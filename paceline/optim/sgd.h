// Stochastic gradient descent with momentum, heavy-ball or Nesterov; the formula is in kernels/sgd.h.
//
// The rate is outside the momentum buffer, which therefore needs no correction when the rate changes (Goyal's form
// (9)); optim/lars.h has it inside.
#pragma once

#include "paceline/optim/device_parameters.h"

namespace paceline {

struct SgdOptions {
  double weight_decay = 0;
  bool nesterov = false;
};

class Sgd : public Optimizer {
 public:
  Sgd(std::vector<Parameter> parameters, SgdOptions options);
  void step(const StepCoefficients& coefficients) override;
  void prepare(const StepCoefficients& coefficients) override;
  std::optional<int64_t> capture_stage(const StepCoefficients&) const override { return on_device_.capture_stage(); }
  State state() const override;  // "momentum/<parameter>"

 private:
  std::vector<Parameter> parameters_;
  StateTensors momentum_;
  DeviceParameters on_device_;
  SgdOptions options_;
};

}  // namespace paceline
