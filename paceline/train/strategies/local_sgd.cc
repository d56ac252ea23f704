#include "paceline/train/strategies/local_sgd.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "paceline/comm/engine_local.h"
#include "paceline/core/error.h"
#include "paceline/core/recipe_effects.h"
#include "paceline/optim/parameter.h"
#include "paceline/sync/local_sgd.h"
#include "paceline/train/assemble.h"
#include "paceline/train/divergence.h"
#include "paceline/train/strategies/on_device.h"

namespace paceline {
namespace {

std::unique_ptr<ReplicaAverage> build_replica_average(const StepParts& parts) {
  try {
    return std::make_unique<ReplicaAverage>(
        *parts.model, parts.optimizer, parts.group,
        FlatSumOptions{.algorithm = parts.recipe.comm.algorithm, .stored_plan = parts.stored_plan}, parts.timeline);
  } catch (const UsageError& error) {  // no such algorithm, or not for these ranks
    parts.recipe.refuse("comm.algorithm", error.what());
  }
}

}  // namespace

// The steps of this rank: what it finds is its own, and nobody waits for it in between.
class LocalSgd::OwnSteps : public StepMaker {
 public:
  OwnSteps(LocalSgd& owner, std::unique_ptr<StepMaker> maker) : owner_(owner), maker_(std::move(maker)) {}

  StepOutcome make(const StepInputs& inputs) override {
    owner_.since_average_.own += static_cast<int64_t>(inputs.batch.count);
    owner_.since_average_.all += static_cast<int64_t>(inputs.batch.global_count);
    LoneDivergence& divergence = owner_.parts_.divergence;
    try {
      if (!divergence.is_noted()) {
        StepOutcome outcome = maker_->make(inputs);
        outcome.stop_asked = false;  // all ranks hear of it when they meet
        return outcome;
      }
    } catch (const DivergenceError& error) {
      divergence.note(error.what());
    }
    const auto number = torch::TensorOptions().device(parameters_of(*owner_.parts_.model).front().tensor.device());
    return {.loss_sum = torch::zeros({}, number),
            .correct = torch::zeros({}, number.dtype(torch::kInt64)),
            .skipped = true};
  }

  bool needs_known_past(const StepInputs& inputs) const override { return maker_->needs_known_past(inputs); }
  bool outcomes_come_late() const override { return maker_->outcomes_come_late(); }
  void settle() override { maker_->settle(); }
  [[noreturn]] void fail_again(const StepInputs& inputs, const std::string& what) override {
    maker_->fail_again(inputs, what);
  }
  int64_t graph_steps() const override { return maker_->graph_steps(); }

 private:
  LocalSgd& owner_;
  std::unique_ptr<StepMaker> maker_;
};

LocalSgd::LocalSgd(StepParts parts) : parts_(std::move(parts)), alone_(make_local_group()) {
  require_values_of_mode(parts_.recipe);
  reducer_ = build_reducer(parts_.recipe, parts_.catalog, *parts_.model, *alone_, parts_.timeline, parts_.stored_plan);
  average_ = build_replica_average(parts_);
}

void LocalSgd::begin() { maker_ = std::make_unique<OwnSteps>(*this, make_step_maker(parts_, *alone_, *reducer_)); }

bool LocalSgd::meets_after(const StepPlan& plan) {
  const auto step = static_cast<uint64_t>(plan.step), steps = static_cast<uint64_t>(plan.steps);
  const auto interval = static_cast<uint64_t>(parts_.recipe.sync.interval);
  ranks_are_equal_ = averages_after(step, interval, std::max(step, steps)) || plan.needs_equal;
  return ranks_are_equal_;
}

bool LocalSgd::meet() {
  enum Rider { stops_asked, divergences };
  std::array<double, 2> riders = {};
  riders[stops_asked] = parts_.stop.stop_requested() ? 1 : 0;
  riders[divergences] = parts_.divergence.is_noted() ? 1 : 0;
  average_->run(since_average_, riders);
  since_average_ = {};
  if (riders[divergences] > 0) parts_.divergence.fail();
  return riders[stops_asked] > 0;
}

std::string LocalSgd::plan_text() const {
  const int64_t interval = parts_.recipe.sync.interval;
  return fmt::format("averaged every {} step{}, summed by {}", interval, interval == 1 ? "" : "s",
                     average_->algorithm_text());
}

}  // namespace paceline
