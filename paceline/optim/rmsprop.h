// RMSProp with momentum, as PyTorch has it; the formula is in kernels/rmsprop.h.
#pragma once

#include "paceline/optim/state_tensors.h"

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
  State state() const override;  // "second/<parameter>", "momentum/<parameter>"

 private:
  std::vector<Parameter> parameters_;
  StateTensors second_, momentum_;
  RmspropOptions options_;
};

}  // namespace paceline
