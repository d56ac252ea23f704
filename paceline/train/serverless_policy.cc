#include "paceline/train/serverless_policy.h"

#include "paceline/comm/engine_local.h"
#include "paceline/core/error.h"
#include "paceline/core/recipe_effects.h"
#include "paceline/optim/parameter.h"

namespace paceline {
namespace {

bool averages_replicas(const Recipe& recipe, const Group& group) {
  return recipe.sync.policy == "local_sgd" && group.size() > 1;
}
bool applies_late(const Recipe& recipe) { return recipe.sync.policy == "stale_allreduce"; }

void refuse_what_does_not_go(const Recipe& recipe) {
  require_values_of_mode(recipe);
  if (applies_late(recipe) && recipe.train.device != "cpu")
    recipe.refuse("train.device",
                  "gradients are summed on the CPU with sync.policy = \"stale_allreduce\": use device = \"cpu\"");
}

FlatSumOptions sum_options(const Recipe& recipe, const std::string& stored_plan) {
  return {.algorithm = recipe.comm.algorithm, .stored_plan = stored_plan};
}

}  // namespace

std::unique_ptr<Group> own_step_group(const Recipe& recipe, const Group& group) {
  if (!applies_late(recipe) && !averages_replicas(recipe, group)) return nullptr;
  refuse_what_does_not_go(recipe);
  return make_local_group();
}

std::unique_ptr<ReplicaAverage> build_replica_average(const Recipe& recipe, Model& model, Optimizer& optimizer,
                                                      Group& group, Timeline* timeline,
                                                      const std::string& stored_plan) {
  if (!averages_replicas(recipe, group)) return nullptr;
  try {
    return std::make_unique<ReplicaAverage>(model, optimizer, group, sum_options(recipe, stored_plan), timeline);
  } catch (const UsageError& error) {  // no such algorithm, or not for these ranks
    recipe.refuse("comm.algorithm", error.what());
  }
}

std::unique_ptr<StaleSum> build_stale_sum(const Recipe& recipe, const Model& model, Group& group, Timeline* timeline,
                                          const std::string& stored_plan) {
  if (!applies_late(recipe)) return nullptr;
  std::vector<NamedParameter> parameters;
  for (const Parameter& parameter : parameters_of(model)) parameters.push_back({parameter.name, parameter.tensor});
  try {
    return std::make_unique<StaleSum>(
        std::move(parameters), group,
        StaleSumOptions{.staleness = static_cast<uint64_t>(recipe.sync.steps_of_staleness()),
                        .overlap = recipe.comm.overlap,
                        .sum = sum_options(recipe, stored_plan),
                        .timeline = timeline});
  } catch (const UsageError& error) {
    recipe.refuse("comm.algorithm", error.what());
  }
}

}  // namespace paceline
