// OnDevice: steps that are queued on a device without waiting for it (DeviceStep). Their outcomes are read when a line
// of metrics is due. A step that a rank looks into (train.diagnose_every_steps) is made by TrainStep, after the
// outcomes of all steps before it were read.
#pragma once

#include <memory>

#include "paceline/train/device_step.h"
#include "paceline/train/step.h"
#include "paceline/train/strategies/step_strategy.h"

namespace paceline {

class OnDevice : public StepMaker {
 public:
  OnDevice(DeviceStep device_step, std::unique_ptr<TrainStep> host_step, LossScaler* scaler)
      : device_step_(std::move(device_step)), host_step_(std::move(host_step)), scaler_(scaler) {}

  StepOutcome make(const StepInputs& inputs) override {
    return inputs.diagnosed ? host_step_->make(inputs) : device_step_(inputs);
  }
  bool needs_known_past(const StepInputs& inputs) const override { return inputs.diagnosed; }
  bool outcomes_come_late() const override { return true; }
  void settle() override {
    if (scaler_) scaler_->settle();
  }
  [[noreturn]] void fail_again(const StepInputs& inputs, const std::string& what) override {
    host_step_->fail_again(inputs, what);
  }
  int64_t graph_steps() const override { return device_step_.replays(); }

 private:
  DeviceStep device_step_;
  std::unique_ptr<TrainStep> host_step_;
  LossScaler* scaler_;
};

// Steps of the ranks of `group`, over which `reducer` sums: OnDevice where the recipe allows it, else TrainStep.
std::unique_ptr<StepMaker> make_step_maker(const StepParts& parts, Group& group, Reducer& reducer);

}  // namespace paceline
