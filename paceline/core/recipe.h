// A recipe: everything that decides a run, read from TOML.
//
// The members below carry the defaults. recipe_*_sections.cc declare each key once (type, range, unit, meaning, when it
// applies); parsing, checking, --set, `paceline recipe keys`, `recipe show` and docs/recipe.md all come from there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

struct Recipe {
  struct Model {
    std::string name = "small_cnn";
    std::string init = "kaiming";  // kaiming | xavier | normal
    bool zero_gamma = false;
    double dropout = 0.5;
  } model;

  struct Data {
    std::string name = "fashion_mnist";
    std::string root;  // empty: where the data set's package puts it, or data/NAME
    int64_t train_samples = 0;
    int64_t test_samples = 0;
    int64_t classes = 10;     // synthetic only
    int64_t channels = 3;     // synthetic only
    int64_t image_size = 32;  // synthetic only
    int64_t loader_threads = 1;
    int64_t prefetch_batches = 4;
    std::string resident = "auto";  // auto | always | never
  } data;

  struct Augment {
    int64_t crop_padding = 0;
    bool flip = false;
    int64_t cutout = 0;
  } augment;

  struct Batch {
    static constexpr int64_t kLargestThatFits = -1;  // local = "auto"
    int64_t global = 128;
    int64_t local = 0;
    std::vector<double> milestones;  // epochs from which `sizes` hold, in place of global or local
    std::vector<double> sizes;
    int64_t micro = 0;
    int64_t fill = 0;
    std::vector<double> fills;  // what `fill` becomes at each milestone
  } batch;

  struct Train {
    double epochs = 1;
    int64_t max_steps = 0;
    double target_accuracy = 0;
    uint64_t seed = 1;
    std::string device = "cpu";
    std::string precision = "f32";  // f32 | bf16 | f16
    int64_t threads = 0;
    double eval_every_epochs = 1;
    int64_t log_every_steps = 50;
    int64_t diagnose_every_steps = 0;
    bool deterministic = false;
    std::string graph = "auto";  // auto | always | never
  } train;

  struct Precision {
    std::string loss_scaling = "none";  // none | static | dynamic
    double loss_scale = 65536;
    int64_t growth_steps = 2000;
    double floor = 1;
    int64_t most_skips = 50;
  } precision;

  struct Loss {
    std::string name = "cross_entropy";
    double label_smoothing = 0;
  } loss;

  struct Optimizer {
    std::string name = "sgd";
    double rate = 0.1;
    double momentum = 0.9;
    bool nesterov = false;
    double weight_decay = 0;
    bool decay_all = false;
    double clip_norm = 0;
    double eta = 0.001;
    double epsilon = 1e-8;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double alpha = 0.99;
    double final_rate = 0.1;
    double gamma = 1e-3;
    double hybrid_epochs = 10;
    double adaptive_rate = 1e-3;
    bool momentum_correction = false;
    double average = 0;
  } optimizer;

  struct Schedule {
    std::string name = "constant";  // constant | step | exponential | polynomial | cosine
    int64_t reference_batch = 0;    // linear scaling: the rate is multiplied by (global batch / this)
    double warmup_epochs = 0;
    double warmup_from = 0;
    double warmup_to = 0;
    std::string decay_from = "start";  // start | warmup_end
    std::vector<double> milestones;
    std::vector<double> rates;  // polynomial: what the rate that it falls from becomes at each milestone
    double factor = 0.1;
    double power = 2;
    double end_rate = 0;
    std::string momentum = "constant";  // constant | noise_scale
    int64_t momentum_batch = 0;
  } schedule;

  struct BatchNorm {
    std::string statistics = "moving_average";  // moving_average | last_iteration
    bool sync = false;
    int64_t recompute_batches = 0;
  } batch_norm;

  struct Comm {
    std::string engine = "auto";
    std::string algorithm = "hybrid";
    uint64_t bucket_bytes = 0;
    bool overlap = true;
    std::string codec = "none";
    int64_t block = 256;
    double density = 0.01;
    bool density_warmup = true;
    double threshold = 1e-3;
    bool error_feedback = true;
    bool momentum_correction = true;
  } comm;

  struct Sync {
    std::string policy = "allreduce";
    int64_t servers = 1;
    static constexpr int64_t kUsualStaleness = -1;  // staleness = "auto"
    int64_t staleness = kUsualStaleness;
    std::string penalty = "none";  // none | linear | exponential
    double penalty_decay = 0.5;
    double drop_share = 0.5;
    int64_t k = 0;
    std::string rule = "time";  // time | variance | fixed
    int64_t k_min = 0;
    int64_t k_max = 0;
    double theta2 = 1;
    std::string merge = "auto";  // auto | additive | mean | drop | zhang
    int64_t history = 4;
    bool look_ahead = true;
    int64_t interval = 10;
    double elasticity = 0.9;
    std::string rate = "schedule";  // schedule | barzilai_borwein
    double most_rate = 0;
    std::vector<double> slowdown;
    double lease_seconds = 10;

    // What `staleness` says; of "auto" what suits the policy.
    int64_t steps_of_staleness() const {
      if (staleness != kUsualStaleness) return staleness;
      return policy == "stale_allreduce" ? 1 : 3;
    }
  } sync;

  struct Checkpoint {
    int64_t every_steps = 0;
    int64_t keep = 3;
  } checkpoint;

  // ---- not keys -----------------------------------------------------------------------------------------------------
  std::string title;  // the file's name without folder and .toml
  std::map<std::string, std::string>
      written;  // where each key that was given stands: "train.seed" -> "r.toml:7:1" or "--set train.seed=2"

  // "r.toml:7:1: train.seed", or "train.seed" when the default stands: how every message about a key begins.
  std::string where(std::string_view key) const;

  // Throws RecipeError "<where(key)>: <what>". For what only a later stage can know (there is no such model).
  [[noreturn]] void refuse(std::string_view key, const std::string& what) const;
};

// Reads and checks. `overrides` are "section.key=value" as --set takes them: the value is TOML, or a bare word for
// text.
Recipe read_recipe(const std::filesystem::path& file, const std::vector<std::string>& overrides = {});
Recipe parse_recipe(std::string_view toml, const std::string& file_name,
                    const std::vector<std::string>& overrides = {});

// The whole recipe as TOML, every key with its value. parse_recipe(print_recipe(r)) gives r again.
std::string print_recipe(const Recipe& recipe);

// The keys whose values differ, each as "train.epochs: 4 -> 8".
std::vector<std::string> recipe_changes(const Recipe& before, const Recipe& after);

// One key as it was declared, in words.
struct RecipeKey {
  std::string section, name, type, default_value, allowed, unit, meaning;
  std::string applies;  // `schedule.name = "step"`: refused in any other case; empty: always has an effect
};
std::vector<RecipeKey> recipe_keys();
std::string recipe_keys_markdown();  // docs/recipe.md

}  // namespace paceline
