#include "paceline/train/strategies/stale.h"

#include <utility>

#include "paceline/comm/engine_local.h"
#include "paceline/core/error.h"
#include "paceline/core/recipe_effects.h"
#include "paceline/optim/parameter.h"
#include "paceline/train/assemble.h"

namespace paceline {
namespace {

std::unique_ptr<StaleSum> build_stale_sum(const StepParts& parts) {
  const Recipe& recipe = parts.recipe;
  std::vector<NamedParameter> parameters;
  for (const Parameter& parameter : parameters_of(*parts.model))
    parameters.push_back({parameter.name, parameter.tensor});
  try {
    return std::make_unique<StaleSum>(
        std::move(parameters), parts.group,
        StaleSumOptions{.staleness = static_cast<uint64_t>(recipe.sync.steps_of_staleness()),
                        .overlap = recipe.comm.overlap,
                        .sum = {.algorithm = recipe.comm.algorithm, .stored_plan = parts.stored_plan},
                        .timeline = parts.timeline});
  } catch (const UsageError& error) {  // no such algorithm, or not for these ranks
    recipe.refuse("comm.algorithm", error.what());
  }
}

}  // namespace

// Steps that compute the gradients of this rank, and apply the sums of an earlier step.
class Stale::LateSteps : public StepMaker {
 public:
  explicit LateSteps(Stale& owner)
      : sums_(*owner.sums_),
        timeline_(owner.parts_.timeline),
        step_(owner.parts_.model, owner.parts_.optimizer, owner.parts_.group, owner.parts_.recipe, *owner.reducer_,
              owner.parts_.timeline, owner.parts_.scaler, [this] { sums_.settle(); }) {}

  StepOutcome make(const StepInputs& inputs) override {
    StepRiders rode = {};
    StepOutcome outcome = step_.compute(inputs, rode);
    const int64_t wait_ns = clock_.now_ns();
    const bool is_there = sums_.exchange(rode);
    note_step_part(timeline_, "wait for sums", wait_ns, clock_.now_ns());
    outcome.stop_asked = rode[stops] > 0;
    if (is_there) step_.apply(inputs, rode, outcome);
    return outcome;
  }

  void apply_rest(const StepInputs& inputs) {
    for (StepRiders rode = {}; sums_.take_next(rode); rode = {}) {
      StepOutcome outcome;
      step_.apply(inputs, rode, outcome);
    }
  }

  bool outcomes_come_late() const override { return step_.outcomes_come_late(); }
  [[noreturn]] void fail_again(const StepInputs& inputs, const std::string& what) override {
    step_.fail_again(inputs, what);
  }

 private:
  StaleSum& sums_;
  Timeline* timeline_;
  TrainStep step_;
  SteadyClock clock_;
};

Stale::Stale(StepParts parts) : parts_(std::move(parts)), alone_(make_local_group()) {
  const Recipe& recipe = parts_.recipe;
  require_values_of_mode(recipe);
  if (recipe.train.device != "cpu")
    recipe.refuse("train.device",
                  "gradients are summed on the CPU with sync.policy = \"stale_allreduce\": use device = \"cpu\"");
  reducer_ = build_reducer(recipe, parts_.catalog, *parts_.model, *alone_, parts_.timeline, parts_.stored_plan);
  sums_ = build_stale_sum(parts_);
}

void Stale::begin() { maker_ = std::make_unique<LateSteps>(*this); }

void Stale::apply_rest(const StepInputs& inputs) { static_cast<LateSteps&>(*maker_).apply_rest(inputs); }

}  // namespace paceline
