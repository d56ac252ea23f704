// InStep: every step sums the gradients of all ranks and applies the sum, so that all ranks are equal after each step
// (sync.policy = "allreduce").
#pragma once

#include "paceline/train/strategies/step_strategy.h"

namespace paceline {

class InStep : public StepStrategy {
 public:
  explicit InStep(StepParts parts);

  void begin() override;
  bool is_in_step() const override { return true; }
  // Steps whose outcomes are known at once agree on them with their gradients.
  bool findings_are_shared() const override { return parts_.group.size() == 1 || !maker_->outcomes_come_late(); }
  Reducer::Cost take_cost() override;
  std::string plan_text() const override { return reducer_->plan_text(); }
  std::string plan_json() const override { return reducer_->plan_json(); }

 private:
  StepParts parts_;
  int64_t exchange_ns_ = 0;  // of synchronised statistics, since the last cost was taken
};

}  // namespace paceline
