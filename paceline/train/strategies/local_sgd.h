// LocalSgd: each rank applies its own gradients, and every sync.interval steps, or before an evaluation, a checkpoint
// or the end, the ranks become their mean (sync.policy = "local_sgd").
//
// A rank that has diverged by itself makes no further steps, and tells the others when they meet.
#pragma once

#include "paceline/train/strategies/replica_average.h"
#include "paceline/train/strategies/step_strategy.h"

namespace paceline {

class LocalSgd : public StepStrategy {
 public:
  // REQUIRES: more than one rank.
  explicit LocalSgd(StepParts parts);

  void begin() override;
  int64_t divisor(const TrainingBatch& batch) const override { return static_cast<int64_t>(batch.count); }
  bool meets_after(const StepPlan& plan) override;
  bool meet() override;
  bool ranks_are_equal() const override { return ranks_are_equal_; }
  bool is_in_step() const override { return false; }
  bool findings_are_shared() const override { return true; }  // meet() has told them
  Reducer::Cost take_cost() override { return average_->take_cost(); }
  std::string plan_text() const override;
  std::string plan_json() const override { return average_->plan_json(); }

 private:
  class OwnSteps;

  StepParts parts_;
  std::unique_ptr<Group> alone_;
  std::unique_ptr<ReplicaAverage> average_;
  ReplicaAverage::Samples since_average_;
  bool ranks_are_equal_ = true;
};

}  // namespace paceline
