// For keys_and_modes_test.cc: every key of a recipe with a value that it does not have by default, the modes of a run,
// and where a changed key shows in nothing that can be compared, with the reason.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "paceline/core/recipe.h"

namespace paceline {

using Settings = std::map<std::string, std::string>;

struct KeyChange {
  Settings to;       // the key, with those that must change with it
  Settings context;  // where the key applies: the run is compared with one that has these only
};

inline const std::map<std::string, KeyChange>& changes() {
  static const std::map<std::string, KeyChange> all = {
      {"model.name", {{{"model.name", "small_cnn"}, {"model.dropout", "default"}}}},
      {"model.init", {{{"model.init", "xavier"}}}},
      {"model.zero_gamma", {{{"model.zero_gamma", Recipe{}.model.zero_gamma ? "false" : "true"}}}},
      {"model.dropout", {{{"model.dropout", "0.25"}}}},
      {"data.name", {{{"data.name", "synthetic"}}}},
      {"data.root", {{{"data.root", "/tmp"}}}},
      {"data.train_samples", {{{"data.train_samples", "32"}}}},
      {"data.test_samples", {{{"data.test_samples", "8"}}}},
      {"data.classes", {{{"data.classes", "5"}}, {{"data.name", "synthetic"}}}},
      {"data.channels", {{{"data.channels", "2"}}, {{"data.name", "synthetic"}}}},
      {"data.image_size", {{{"data.image_size", "9"}}, {{"data.name", "synthetic"}}}},
      {"data.loader_threads", {{{"data.loader_threads", "2"}}}},
      {"data.prefetch_batches", {{{"data.prefetch_batches", "2"}}}},
      {"data.resident", {{{"data.resident", "always"}}}},
      {"augment.crop_padding", {{{"augment.crop_padding", "2"}}}},
      {"augment.flip", {{{"augment.flip", "true"}}}},
      {"augment.cutout", {{{"augment.cutout", "4"}}}},
      {"batch.global", {{{"batch.global", "8"}}}},
      {"batch.local", {{{"batch.local", "4"}}}},
      {"batch.milestones", {{{"batch.milestones", "[1]"}, {"batch.sizes", "[8]"}}}},
      {"batch.sizes", {{{"batch.sizes", "[24]"}}, {{"batch.milestones", "[1]"}, {"batch.sizes", "[8]"}}}},
      {"batch.micro", {{{"batch.micro", "4"}}}},
      {"batch.fill", {{{"batch.fill", "12"}}}},
      {"batch.fills",
       {{{"batch.fills", "[4]"}}, {{"batch.fill", "12"}, {"batch.milestones", "[1]"}, {"batch.sizes", "[16]"}}}},
      {"train.epochs", {{{"train.epochs", "1"}}}},
      {"train.max_steps", {{{"train.max_steps", "2"}}}},
      {"train.target_accuracy", {{{"train.target_accuracy", "0.01"}}}},
      {"train.seed", {{{"train.seed", "2"}}}},
      {"train.precision", {{{"train.precision", "bf16"}}}},
      {"train.threads", {{{"train.threads", "2"}}}},
      {"train.eval_every_epochs", {{{"train.eval_every_epochs", "0.5"}}}},
      {"train.log_every_steps", {{{"train.log_every_steps", "1"}}}},
      {"train.diagnose_every_steps", {{{"train.diagnose_every_steps", "2"}}}},
      {"train.deterministic", {{{"train.deterministic", "true"}}}},
      {"train.graph", {{{"train.graph", "never"}}}},
      {"precision.loss_scaling", {{{"precision.loss_scaling", "dynamic"}}}},
      {"precision.loss_scale", {{{"precision.loss_scale", "8"}}, {{"precision.loss_scaling", "dynamic"}}}},
      {"precision.growth_steps", {{{"precision.growth_steps", "1"}}, {{"precision.loss_scaling", "dynamic"}}}},
      {"precision.floor", {{{"precision.floor", "4"}}, {{"precision.loss_scaling", "dynamic"}}}},
      {"precision.most_skips", {{{"precision.most_skips", "2"}}, {{"precision.loss_scaling", "dynamic"}}}},
      {"loss.name", {{{"loss.name", "mse"}}}},
      {"loss.label_smoothing", {{{"loss.label_smoothing", "0.1"}}}},
      {"optimizer.name", {{{"optimizer.name", "adam"}}}},
      {"optimizer.rate", {{{"optimizer.rate", "0.02"}}}},
      {"optimizer.momentum", {{{"optimizer.momentum", "0.5"}}}},
      {"optimizer.nesterov", {{{"optimizer.nesterov", "true"}}}},
      {"optimizer.weight_decay", {{{"optimizer.weight_decay", "0.1"}}}},
      {"optimizer.decay_all", {{{"optimizer.decay_all", "true"}}, {{"optimizer.weight_decay", "0.1"}}}},
      {"optimizer.clip_norm", {{{"optimizer.clip_norm", "0.01"}}}},
      {"optimizer.eta", {{{"optimizer.eta", "0.1"}}, {{"optimizer.name", "lars"}}}},
      {"optimizer.epsilon", {{{"optimizer.epsilon", "0.1"}}, {{"optimizer.name", "adam"}}}},
      {"optimizer.beta1", {{{"optimizer.beta1", "0.5"}}, {{"optimizer.name", "adam"}}}},
      {"optimizer.beta2", {{{"optimizer.beta2", "0.5"}}, {{"optimizer.name", "adam"}}}},
      {"optimizer.alpha", {{{"optimizer.alpha", "0.5"}}, {{"optimizer.name", "rmsprop"}}}},
      {"optimizer.final_rate", {{{"optimizer.final_rate", "0.01"}}, {{"optimizer.name", "adabound"}}}},
      {"optimizer.gamma", {{{"optimizer.gamma", "0.5"}}, {{"optimizer.name", "adabound"}}}},
      {"optimizer.hybrid_epochs",
       {{{"optimizer.hybrid_epochs", "0.5"}}, {{"optimizer.name", "hybrid"}, {"optimizer.hybrid_epochs", "1"}}}},
      {"optimizer.adaptive_rate",
       {{{"optimizer.adaptive_rate", "0.01"}}, {{"optimizer.name", "hybrid"}, {"optimizer.hybrid_epochs", "1"}}}},
      {"optimizer.momentum_correction",
       {{{"optimizer.momentum_correction", "true"}},
        {{"optimizer.name", "lars"}, {"optimizer.eta", "0.1"}, {"schedule.name", "cosine"}}}},
      {"optimizer.average", {{{"optimizer.average", "0.5"}}}},
      {"schedule.name", {{{"schedule.name", "cosine"}}}},
      {"schedule.reference_batch", {{{"schedule.reference_batch", "32"}}}},
      {"schedule.warmup_epochs", {{{"schedule.warmup_epochs", "1"}}}},
      {"schedule.warmup_from", {{{"schedule.warmup_from", "0.01"}}, {{"schedule.warmup_epochs", "1"}}}},
      {"schedule.warmup_to", {{{"schedule.warmup_to", "0.2"}}, {{"schedule.warmup_epochs", "1"}}}},
      {"schedule.decay_from",
       {{{"schedule.decay_from", "warmup_end"}}, {{"schedule.warmup_epochs", "1"}, {"schedule.name", "cosine"}}}},
      {"schedule.milestones",
       {{{"schedule.milestones", "[0.5]"}}, {{"schedule.name", "step"}, {"schedule.milestones", "[1]"}}}},
      {"schedule.rates",
       {{{"schedule.rates", "[0.3]"}},
        {{"schedule.name", "polynomial"}, {"schedule.milestones", "[1]"}, {"schedule.rates", "[0.1]"}}}},
      {"schedule.factor", {{{"schedule.factor", "0.5"}}, {{"schedule.name", "step"}, {"schedule.milestones", "[1]"}}}},
      {"schedule.power", {{{"schedule.power", "1"}}, {{"schedule.name", "polynomial"}}}},
      {"schedule.end_rate", {{{"schedule.end_rate", "0.01"}}, {{"schedule.name", "polynomial"}}}},
      {"schedule.momentum",
       {{{"schedule.momentum", "noise_scale"}}, {{"batch.milestones", "[1]"}, {"batch.sizes", "[8]"}}}},
      {"schedule.momentum_batch", {{{"schedule.momentum_batch", "32"}}, {{"schedule.momentum", "noise_scale"}}}},
      {"batch_norm.statistics", {{{"batch_norm.statistics", "last_iteration"}}}},
      {"batch_norm.sync", {{{"batch_norm.sync", "true"}}}},
      {"batch_norm.recompute_batches", {{{"batch_norm.recompute_batches", "1"}}}},
      {"comm.engine", {{{"comm.engine", "shm"}}}},
      {"comm.algorithm", {{{"comm.algorithm", "ring"}}}},
      {"comm.bucket_bytes", {{{"comm.bucket_bytes", "64"}}}},
      {"comm.overlap", {{{"comm.overlap", "false"}}}},
      {"comm.codec", {{{"comm.codec", "int8"}}}},
      {"comm.block", {{{"comm.block", "8"}}, {{"comm.codec", "int8"}}}},
      {"comm.density", {{{"comm.density", "0.5"}}, {{"comm.codec", "topk"}}}},
      {"comm.density_warmup", {{{"comm.density_warmup", "false"}}, {{"comm.codec", "topk"}}}},
      {"comm.threshold", {{{"comm.threshold", "0.1"}}, {{"comm.codec", "threshold"}}}},
      {"comm.error_feedback", {{{"comm.error_feedback", "false"}}, {{"comm.codec", "int8"}}}},
      {"comm.momentum_correction", {{{"comm.momentum_correction", "false"}}, {{"comm.codec", "topk"}}}},
      {"sync.servers", {{{"sync.servers", "2"}}}},
      {"sync.staleness", {{{"sync.staleness", "2"}}}},
      {"sync.penalty", {{{"sync.penalty", "linear"}}}},
      {"sync.penalty_decay", {{{"sync.penalty_decay", "1"}}, {{"sync.penalty", "exponential"}}}},
      {"sync.drop_share", {{{"sync.drop_share", "0.2"}}}},
      {"sync.k", {{{"sync.k", "1"}}}},
      {"sync.rule", {{{"sync.rule", "variance"}}}},
      {"sync.k_min", {{{"sync.k_min", "1"}}}},
      {"sync.k_max", {{{"sync.k_max", "2"}}}},
      {"sync.theta2", {{{"sync.theta2", "2"}}, {{"sync.rule", "variance"}}}},
      {"sync.merge", {{{"sync.merge", "drop"}}}},
      {"sync.history", {{{"sync.history", "2"}}, {{"sync.merge", "mean"}}}},
      {"sync.look_ahead", {{{"sync.look_ahead", "false"}}}},
      {"sync.interval", {{{"sync.interval", "1"}}}},
      {"sync.elasticity", {{{"sync.elasticity", "0.5"}}}},
      // The curvature of cross-entropy is negative here and there: no rate follows from it.
      {"sync.rate", {{{"sync.rate", "barzilai_borwein"}}, {{"optimizer.rate", "0.001"}, {"loss.name", "mse"}}}},
      {"sync.most_rate",
       {{{"sync.most_rate", "0.001"}},
        {{"sync.rate", "barzilai_borwein"}, {"optimizer.rate", "0.001"}, {"loss.name", "mse"}}}},
      {"sync.slowdown", {{{"sync.slowdown", "[2]"}}}},
      {"sync.lease_seconds", {{{"sync.lease_seconds", "5"}}}},
      {"checkpoint.every_steps", {{{"checkpoint.every_steps", "2"}}}},
      {"checkpoint.keep", {{{"checkpoint.keep", "1"}}}},
  };
  return all;
}

struct RunMode {
  std::string name;
  Settings settings;
  int ranks = 1;  // or workers, of which the plan is made
  bool served = false, run = true;
  bool as_on_device = false;  // its steps are those of a GPU
};

inline const std::vector<RunMode>& modes() {
  static const std::vector<RunMode> all = {
      {"one rank", {}},
      {"three ranks in step", {}, 3},
      {.name = "device", .as_on_device = true},
      {.name = "device, three ranks", .ranks = 3, .as_on_device = true},
      {"local_sgd", {{"sync.policy", "local_sgd"}, {"sync.interval", "2"}}, 3},
      {"stale_allreduce", {{"sync.policy", "stale_allreduce"}, {"sync.staleness", "1"}}, 3},
      {"bsp", {{"sync.policy", "bsp"}}, 8, true},
      {"easgd", {{"sync.policy", "easgd"}, {"sync.interval", "3"}}, 8, true},
      {"asp", {{"sync.policy", "asp"}}, 8, true, false},
      {"ssp", {{"sync.policy", "ssp"}}, 8, true, false},
      {"drop_worker", {{"sync.policy", "drop_worker"}}, 8, true, false},
      {"k_sync", {{"sync.policy", "k_sync"}}, 8, true, false},
      {"adaptive_k", {{"sync.policy", "adaptive_k"}}, 8, true, false},
      {"adaptive_k, fixed", {{"sync.policy", "adaptive_k"}, {"sync.rule", "fixed"}}, 8, true, false},
  };
  return all;
}

inline bool is_served(const RunMode& mode) { return mode.served; }
inline bool is_not_served(const RunMode& mode) { return !mode.served; }
inline bool is_any(const RunMode&) { return true; }
inline bool is_asynchronous(const RunMode& mode) { return mode.name == "asp" || mode.name == "ssp"; }
inline bool has_several_ranks(const RunMode& mode) { return !mode.served && mode.ranks > 1; }

// Where a changed key leaves all that is compared as it was, or may do so.
struct AllowedSilence {
  const char* key;
  bool (*in)(const RunMode&);
  const char* reason;
};
constexpr AllowedSilence kAllowedSilences[] = {
    {"data.loader_threads", is_any, "how fast samples come, not which: data/loader_test.cc"},
    {"data.prefetch_batches", is_not_served, "how fast samples come, not which: data/loader_test.cc"},
    {"train.threads", is_any, "how fast it computes"},
    {"comm.overlap", has_several_ranks, "when sums begin, not what they are: gradients/reducer_test.cc"},
    {"comm.overlap", is_served, "when gradients leave, not what they are: serving/gradient_stream_test.cc"},
    {"comm.engine", is_not_served, "the program chooses the group before there is a run: tests/engines_test.py"},
    {"sync.slowdown", is_any, "how long a step takes: train/strategies/step_strategy_test.cc, tests/server_test.py"},
    {"precision.floor", is_not_served, "it takes an overflow: precision/loss_scale_test.cc"},
    {"precision.most_skips", is_not_served, "it takes overflows: precision/loss_scale_test.cc"},
    {"optimizer.momentum", is_asynchronous, "the chief says so (plan_remark): serving/server_plan_test.cc"},
    {"train.eval_every_epochs", is_served, "the chief looks five times a second: serving/chief_test.cc"},
    {"train.log_every_steps", is_served, "the chief looks five times a second: serving/chief_test.cc"},
    {"train.target_accuracy", is_served, "the chief looks five times a second: tests/server_test.py"},
    {"checkpoint.every_steps", is_served, "the chief looks five times a second: serving/chief_test.cc"},
    {"checkpoint.keep", is_served, "checkpoints come with the chief's looks: train/checkpoint_test.cc"},
};

}  // namespace paceline
