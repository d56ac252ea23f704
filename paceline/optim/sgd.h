// Stochastic gradient descent with momentum, heavy-ball or Nesterov; the formula is in kernels/sgd.h.
#pragma once

#include "paceline/optim/optimizer.h"

namespace paceline {

struct SgdOptions {
  double weight_decay = 0;
  bool nesterov = false;
};

class Sgd : public Optimizer {
 public:
  Sgd(std::vector<Parameter> parameters, SgdOptions options);
  void step(const StepCoefficients& coefficients) override;
  State state() const override;  // "momentum/<parameter>"

 private:
  std::vector<Parameter> parameters_;
  std::vector<torch::Tensor> momentum_;
  SgdOptions options_;
};

}  // namespace paceline
