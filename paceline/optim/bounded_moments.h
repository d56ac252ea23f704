// The two moments of AdaBound and the pass that updates them and the weights; AdaBound and the hybrid's warm-up share
// it and differ in rates, bounds and corrections.
#pragma once

#include "paceline/kernels/adabound.h"
#include "paceline/optim/state_tensors.h"

namespace paceline {

class BoundedMoments {
 public:
  explicit BoundedMoments(const std::vector<Parameter>& parameters);

  // `parameters` are those it was made with. c.weight_decay is for those that are decayed.
  void step(const std::vector<Parameter>& parameters, const AdaboundCoefficients& c) const;

  void add_to(Optimizer::State& state, const std::vector<Parameter>& parameters) const;  // "first/...", "second/..."

 private:
  StateTensors first_, second_;
};

}  // namespace paceline
