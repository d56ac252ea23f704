// StepMaker: makes one training step after another for the ranks of its reducer. TrainStep (train/step.h) knows each
// outcome when it returns; OnDevice (strategies/on_device.h) queues steps and learns later what became of them.
#pragma once

#include <cstdint>
#include <string>

#include "paceline/train/step_outcome.h"

namespace paceline {

class StepMaker {
 public:
  virtual ~StepMaker() = default;

  // Makes the step. Throws DivergenceError where it knows at once that a number is not finite.
  virtual StepOutcome make(const StepInputs& inputs) = 0;

  // Whether this step can only be made when the outcomes of all steps before it have been read.
  virtual bool needs_known_past(const StepInputs&) const { return false; }

  // Whether outcomes lie on a device that may not have computed them yet.
  virtual bool outcomes_come_late() const = 0;

  // After outcomes were read: the loss scale becomes what they make of it. Throws TrainingError after too many skips.
  virtual void settle() {}

  // Makes a step again whose outcome told that it diverged, with the weights that it had, and throws the
  // DivergenceError that says where it began. Every rank calls it.
  [[noreturn]] virtual void fail_again(const StepInputs& inputs, const std::string& what) = 0;

  virtual int64_t graph_steps() const { return 0; }  // launched as one CUDA graph
};

}  // namespace paceline
