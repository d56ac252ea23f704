// What a recipe means for a parameter server: how parameters are cut, how they are updated, who waits for whom, who
// reads which samples. Servers, workers and the chief make the same plan of the same recipe; nothing of it is sent.
#pragma once

#include <vector>

#include "paceline/core/recipe.h"
#include "paceline/models/model.h"
#include "paceline/ps/coordinator.h"
#include "paceline/ps/server_update.h"
#include "paceline/ps/shard_map.h"

namespace paceline {

inline bool needs_server(const Recipe& recipe) {
  const std::string& policy = recipe.sync.policy;
  return policy != "allreduce" && policy != "local_sgd" && policy != "stale_allreduce";
}
// Workers of elastic averaging make steps of their own between exchanges.
inline bool updates_alone(const Recipe& recipe) { return recipe.sync.policy == "easgd"; }

struct ServerPlan {
  ShardMap map;
  ServerUpdate update;
  CoordinatorOptions coordinator;
};

// Throws RecipeError for keys that do not go with a parameter server.
ServerPlan server_plan(const Recipe& recipe, const Model& model, uint64_t data_size, int workers);

// What a step of the run takes, as it is counted for people: a whole batch, a worker's share of it (of asynchronous
// policies, and of workers that step alone), or what the policy finds right in each step.
enum class StepTakes : uint8_t { batch, share, varies };
StepTakes step_takes(const Recipe& recipe);

// The batch of a worker that steps alone.
uint64_t own_batch(const Recipe& recipe, int workers);

// What differs from the recipe's letter, for people; empty: nothing.
std::string plan_remark(const Recipe& recipe);

// The samples of an exchange's lease, as batches of the size that the recipe means; one where workers do not step
// alone.
std::vector<BatchRange> local_batches(const Recipe& recipe, const SampleLease& lease, int workers);

}  // namespace paceline
