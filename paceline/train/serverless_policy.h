// What sync.policy means for ranks that train without a server: in step ("allreduce"), alone between averages
// ("local_sgd"), or with gradients that are applied late ("stale_allreduce").
#pragma once

#include <memory>
#include <string>

#include "paceline/comm/group.h"
#include "paceline/core/recipe.h"
#include "paceline/gradients/stale_sum.h"
#include "paceline/train/replica_average.h"

namespace paceline {

// The group over which a step sums by itself: of this rank alone where something else is done about the others. Null:
// the run's own. Throws RecipeError for keys that do not go with the policy.
std::unique_ptr<Group> own_step_group(const Recipe& recipe, const Group& group);

// Null with other policies; of a single rank, which has nobody to meet, also with its own. Every rank calls it.
std::unique_ptr<ReplicaAverage> build_replica_average(const Recipe& recipe, Model& model, Optimizer& optimizer,
                                                      Group& group, Timeline* timeline, const std::string& stored_plan);

// Null with other policies. Every rank calls it.
std::unique_ptr<StaleSum> build_stale_sum(const Recipe& recipe, const Model& model, Group& group, Timeline* timeline,
                                          const std::string& stored_plan);

}  // namespace paceline
