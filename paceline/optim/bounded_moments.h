// The two moments of AdaBound and the pass that updates them and the weights; AdaBound and the hybrid's warm-up share
// it and differ in rates, bounds and corrections.
#pragma once

#include "paceline/kernels/adabound.h"
#include "paceline/optim/step_count.h"

namespace paceline {

class BoundedMoments {
 public:
  explicit BoundedMoments(const std::vector<Parameter>& parameters);

  // The two halves of a step: Optimizer::prepare() and the update. `parameters` are those it was made with.
  // c.weight_decay is for those that are decayed; the update takes its gradient_scale from `step`, which may have to
  // scale it.
  void prepare(const AdaboundCoefficients& c) const;
  void update(const std::vector<Parameter>& parameters, const AdaboundCoefficients& c, const StepCoefficients& step);

  // The same with coefficients that follow from the number of the step, which the update counts.
  void prepare(const AdaboundByStep& by_step) const;
  void update(const std::vector<Parameter>& parameters, const AdaboundByStep& by_step, const StepCount& steps,
              const StepCoefficients& step);
  StepCount make_step_count() const { return StepCount(on_device_); }

  bool is_capturing() const { return on_device_.is_capturing(); }
  std::optional<int64_t> capture_stage() const { return on_device_.capture_stage(); }

  void add_to(Optimizer::State& state, const std::vector<Parameter>& parameters) const;  // "first/...", "second/..."

 private:
  // `on_host`: the coefficients there, asked for once in a step that is known to be made.
  void update(const std::vector<Parameter>& parameters, const std::function<AdaboundCoefficients()>& on_host,
              int64_t* steps_on_device, const StepCoefficients& step);

  StateTensors first_, second_;
  DeviceParameters on_device_;
};

}  // namespace paceline
