// The two moments of AdaBound and the pass that updates them and the weights; AdaBound and the hybrid's warm-up share
// it and differ in rates, bounds and corrections.
#pragma once

#include "paceline/kernels/adabound.h"
#include "paceline/optim/device_parameters.h"

namespace paceline {

class BoundedMoments {
 public:
  explicit BoundedMoments(const std::vector<Parameter>& parameters);

  // The two halves of a step: Optimizer::prepare() and the update. `parameters` are those it was made with.
  // c.weight_decay is for those that are decayed; the update takes its gradient_scale from `step`, which may have to
  // scale it.
  void prepare(const AdaboundCoefficients& c) const;
  void update(const std::vector<Parameter>& parameters, const AdaboundCoefficients& c, const StepCoefficients& step);

  bool is_capturing() const { return on_device_.is_capturing(); }
  std::optional<int64_t> capture_stage() const { return on_device_.capture_stage(); }

  void add_to(Optimizer::State& state, const std::vector<Parameter>& parameters) const;  // "first/...", "second/..."

 private:
  StateTensors first_, second_;
  DeviceParameters on_device_;
};

}  // namespace paceline
