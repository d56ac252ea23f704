#include "paceline/serving/server_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/recipe_effects.h"
#include "paceline/optim/parameter.h"
#include "paceline/schedule/from_recipe.h"
#include "paceline/train/run_length.h"

namespace paceline {
namespace {

// Steps of several gradients whose late ones are merged: their momentum is the progressive one.
bool is_progressive(const Recipe& recipe) {
  return recipe.sync.policy == "k_sync" || recipe.sync.policy == "adaptive_k";
}

bool is_asynchronous(const Recipe& recipe) { return recipe.sync.policy == "asp" || recipe.sync.policy == "ssp"; }

std::string merge_of(const Recipe::Sync& sync) {
  if (sync.merge != "auto") return sync.merge;
  return sync.look_ahead ? "additive" : "mean";
}

void refuse_what_servers_cannot(const Recipe& recipe) {
  require_values_of_mode(recipe);
  const auto refuse = [&](const char* key, const std::string& what) {
    recipe.refuse(key, fmt::format("{} with sync.policy = \"{}\"", what, recipe.sync.policy));
  };
  const std::string& optimizer = recipe.optimizer.name;
  const std::vector<std::string> known = {"sgd", "adam", "adamw", "rmsprop", "lars"};
  if (!updates_alone(recipe) && std::ranges::find(known, optimizer) == known.end())
    refuse("optimizer.name", fmt::format("'{}' does not go (a server has {})", optimizer, fmt::join(known, ", ")));
  if (is_progressive(recipe) && optimizer != "sgd" && merge_of(recipe.sync) != "drop")
    refuse("optimizer.name", "late gradients are merged into the momentum of sgd: use it, or sync.merge = \"drop\",");
  const std::string& codec = recipe.comm.codec;
  if (codec != "none" && codec != "fp16" && codec != "bf16" && codec != "int8")
    refuse("comm.codec",
           fmt::format("'{}' needs error feedback, which is for sums: use none, fp16, bf16 or int8", codec));
}

ServerUpdate server_update(const Recipe& recipe) {
  const Recipe::Optimizer& optimizer = recipe.optimizer;
  ServerUpdate update = {.optimizer = optimizer.name,
                         .momentum = optimizer.momentum,
                         .nesterov = optimizer.nesterov,
                         .weight_decay = optimizer.weight_decay,
                         .beta1 = optimizer.beta1,
                         .beta2 = optimizer.beta2,
                         .epsilon = optimizer.epsilon,
                         .alpha = optimizer.alpha,
                         .eta = optimizer.eta};
  if (updates_alone(recipe)) update = {.optimizer = "sgd", .momentum = 0};  // never used: exchanges are no steps
  if (is_asynchronous(recipe)) update.momentum = 0, update.nesterov = false;
  if (is_progressive(recipe) && optimizer.name == "sgd") {
    update.optimizer = "progressive";
    update.nesterov = false;
    update.look_ahead = recipe.sync.look_ahead;
    if (merge_of(recipe.sync) == "mean") update.history = static_cast<int>(recipe.sync.history);
  }
  update.noise = recipe.sync.policy == "adaptive_k" && recipe.sync.rule != "fixed";
  return update;
}

SyncSettings sync_settings(const Recipe& recipe, int workers) {
  const Recipe::Sync& sync = recipe.sync;
  return {.workers = workers,
          .momentum = recipe.optimizer.momentum,
          .staleness = static_cast<int>(sync.steps_of_staleness()),
          .penalty = sync.penalty,
          .penalty_decay = sync.penalty_decay,
          .drop_share = sync.drop_share,
          .k = static_cast<int>(sync.k),
          .merge = merge_of(sync),
          .history = static_cast<int>(sync.history),
          .elasticity = sync.elasticity,
          .rule = sync.rule,
          .k_min = static_cast<int>(sync.k_min),
          .k_max = static_cast<int>(sync.k_max),
          .theta2 = sync.theta2};
}

LeasePlan lease_plan(const Recipe& recipe, uint64_t data_size, int workers) {
  const BatchSchedule batch = batch_schedule(recipe, workers, data_size);
  const RunLength length = run_length(recipe.train, batch, data_size);
  const uint64_t in_steps = samples_in(batch, data_size, static_cast<uint64_t>(length.steps));
  const uint64_t exchange = std::min<uint64_t>(batch.at(0) * static_cast<uint64_t>(recipe.sync.interval), data_size);
  return {.data_size = data_size,
          .total_samples = in_steps,
          .global_batch = updates_alone(recipe) ? BatchSchedule(exchange) : batch,
          .workers = workers};
}

}  // namespace

ServerPlan server_plan(const Recipe& recipe, const Model& model, uint64_t data_size, int workers) {
  refuse_what_servers_cannot(recipe);
  std::vector<NamedLength> tensors;
  for (const Parameter& parameter : parameters_of(model))
    tensors.push_back({.name = parameter.name,
                       .count = static_cast<uint64_t>(parameter.tensor.numel()),
                       .decayed = parameter.decayed || recipe.optimizer.decay_all});
  const int shards = static_cast<int>(recipe.sync.servers);
  return {.map = ShardMap(std::move(tensors), shards),
          .update = server_update(recipe),
          .coordinator = {.policy = recipe.sync.policy,
                          .sync = sync_settings(recipe, workers),
                          .plan = lease_plan(recipe, data_size, workers),
                          .shards = shards,
                          .lease_ns = static_cast<int64_t>(1e9 * recipe.sync.lease_seconds)}};
}

StepTakes step_takes(const Recipe& recipe) {
  if (recipe.sync.policy == "bsp") return StepTakes::batch;
  return updates_alone(recipe) || is_asynchronous(recipe) ? StepTakes::share : StepTakes::varies;
}

uint64_t own_batch(const Recipe& recipe, int workers) {
  const uint64_t global = batch_schedule(recipe, workers, UINT64_MAX).at(0);
  return std::max<uint64_t>(1, global / static_cast<uint64_t>(workers));
}

std::string plan_remark(const Recipe& recipe) {
  const std::string& optimizer = recipe.optimizer.name;
  const bool has_momentum = optimizer == "sgd" || optimizer == "lars" || optimizer == "rmsprop";
  if (is_asynchronous(recipe) && recipe.optimizer.momentum > 0 && has_momentum)
    return fmt::format("{}: the server's momentum is 0: gradients that are applied late act as one",
                       recipe.sync.policy);
  return "";
}

std::vector<BatchRange> local_batches(const Recipe& recipe, const SampleLease& lease, int workers) {
  if (!updates_alone(recipe)) return {lease.range};
  const uint64_t each = own_batch(recipe, workers);
  std::vector<BatchRange> batches;
  for (uint64_t begin = lease.range.begin; begin < lease.range.end; begin += each)
    batches.push_back({lease.range.epoch, begin, std::min(begin + each, lease.range.end)});
  return batches;
}

}  // namespace paceline
