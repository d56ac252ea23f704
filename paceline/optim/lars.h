// LARS: SGD with momentum whose rate follows the norms of each layer's weights and gradient; formulas in
// kernels/lars.h.
//
// Biases and batch normalisation (Parameter::decayed is false) are neither adapted nor decayed: theirs is the plain
// rate.
#pragma once

#include "paceline/optim/device_parameters.h"

namespace paceline {

struct LarsOptions {
  double eta = 0.001;  // the trust coefficient: how far a layer may move in a step of rate 1, relative to its norm
  double epsilon = 0;
  double weight_decay = 0;
  // The rate is inside the momentum buffer. When it changes, what is in the buffer keeps the old one; with this, it is
  // multiplied by new rate / old rate (Goyal 2017, section 3).
  bool momentum_correction = false;
};

class Lars : public Optimizer {
 public:
  Lars(std::vector<Parameter> parameters, LarsOptions options);
  void step(const StepCoefficients& coefficients) override;
  void prepare(const StepCoefficients& coefficients) override;
  std::optional<int64_t> capture_stage(const StepCoefficients&) const override { return on_device_.capture_stage(); }
  State state() const override;  // "momentum/<parameter>"; "rate", the last one, with momentum_correction

 private:
  // Where a kernel corrects the momentum, the one that is given.
  double momentum_of(const StepCoefficients& coefficients) const;

  std::vector<Parameter> parameters_;
  StateTensors momentum_;
  DeviceParameters on_device_;
  torch::Tensor device_sums_, device_rates_;  // the kernels'
  LarsOptions options_;
  double momentum_now_ = 0;  // of the step that prepare() was called for
  // Of the last step that was made: one that overflowed is none, which where a kernel makes them only the device knows.
  torch::Tensor last_rate_;
};

}  // namespace paceline
