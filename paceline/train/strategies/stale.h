// Stale: every step hands over its gradients and applies the sum of those of sync.staleness steps before, which the
// ranks sum beside the steps in between (sync.policy = "stale_allreduce"). All ranks apply the same sums in the same
// order, and stay equal.
#pragma once

#include "paceline/train/step.h"
#include "paceline/train/strategies/step_strategy.h"

namespace paceline {

class Stale : public StepStrategy {
 public:
  explicit Stale(StepParts parts);

  void begin() override;
  void apply_rest(const StepInputs& inputs) override;
  void settle() override { sums_->settle(); }
  bool is_in_step() const override { return false; }
  bool findings_are_shared() const override { return parts_.group.size() == 1; }
  StaleSum* under_way() override { return sums_.get(); }
  Reducer::Cost take_cost() override { return sums_->take_cost(); }
  std::string plan_text() const override { return sums_->plan_text(); }
  std::string plan_json() const override { return sums_->plan_json(); }

 private:
  class LateSteps;

  StepParts parts_;
  std::unique_ptr<Group> alone_;
  std::unique_ptr<StaleSum> sums_;
};

}  // namespace paceline
