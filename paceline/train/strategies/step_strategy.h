// StepStrategy: how the ranks of a run without a server train together (sync.policy): over which ranks a step sums its
// gradients, when the ranks become equal, and when they learn what one of them has found out alone. One file for each
// way: in_step.h, local_sgd.h, stale.h.
//
//   auto strategy = make_step_strategy(parts);
//   strategy->begin();                                   // the run's state is loaded
//   for (...) {
//     const StepOutcome outcome = strategy->maker().make(inputs);
//     if (strategy->meets_after(place)) strategy->meet();
//   }
//   strategy->apply_rest(inputs);
//
// Every rank calls everything here, after the same steps.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "paceline/comm/group.h"
#include "paceline/gradients/reducer.h"
#include "paceline/gradients/stale_sum.h"
#include "paceline/metrics/timeline.h"
#include "paceline/models/model.h"
#include "paceline/optim/optimizer.h"
#include "paceline/precision/loss_scaler.h"
#include "paceline/train/catalog.h"
#include "paceline/train/lone_divergence.h"
#include "paceline/train/step_maker.h"

namespace paceline {

// What a run is made of. All of it must outlive the strategy.
struct StepParts {
  const Recipe& recipe;
  const Catalog& catalog;
  std::shared_ptr<Model> model;
  Optimizer& optimizer;
  Group& group;
  LossScaler* scaler = nullptr;  // null without loss scaling
  Timeline* timeline = nullptr;  // may be null
  LoneDivergence& divergence;    // of this rank
  std::string stored_plan;       // of the run that goes on; rank 0's
  std::stop_token stop;          // asks this rank to end the run
  bool as_on_device = false;     // outcomes come late, as on a GPU: for tests
};

// Where a run is after a step.
struct StepPlan {
  int64_t step = 0;          // counted from 1
  int64_t steps = 0;         // of the run
  bool needs_equal = false;  // the run ends, or an evaluation or a checkpoint is due
};

class StepStrategy {
 public:
  virtual ~StepStrategy() = default;

  // Once, when the run's state has been loaded.
  virtual void begin() = 0;

  // REQUIRES: begin()
  StepMaker& maker() { return *maker_; }
  // Sums the gradients of a step: over all ranks, or of this rank alone.
  Reducer& reducer() { return *reducer_; }

  // The number of samples that a step's gradient is the mean of.
  virtual int64_t divisor(const TrainingBatch& batch) const { return static_cast<int64_t>(batch.global_count); }

  // Whether the ranks are made equal after this step, and that. meet() comes after the outcomes of all steps were read;
  // returns whether any rank was asked to stop.
  virtual bool meets_after(const StepPlan&) { return false; }
  virtual bool meet() { return false; }
  virtual bool ranks_are_equal() const { return true; }

  // After the last step, whose inputs these are: applies the gradients that are still under way.
  virtual void apply_rest(const StepInputs&) {}

  // Before other operations of the same ranks: waits until nothing is being summed.
  virtual void settle() {}

  // Whether all ranks have applied the same gradients in each step, so that all can make a step again.
  virtual bool is_in_step() const = 0;
  // Whether a divergence that one rank has found is known to all ranks by now.
  virtual bool findings_are_shared() const = 0;

  // Gradients under way, for checkpoints; null where a step applies its own.
  virtual StaleSum* under_way() { return nullptr; }

  virtual Reducer::Cost take_cost() = 0;  // since the last call
  virtual std::string plan_text() const = 0;
  virtual std::string plan_json() const = 0;

 protected:
  std::unique_ptr<Reducer> reducer_;
  std::unique_ptr<StepMaker> maker_;
};

// Throws RecipeError for keys that do not go with the policy.
std::unique_ptr<StepStrategy> make_step_strategy(StepParts parts);

}  // namespace paceline
