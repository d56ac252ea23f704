// No key of a recipe is ignored in silence: in every mode, to change a key changes the run (its weights, its metrics,
// its plan, its files), or is refused, or is in kAllowedSilences with the reason why nothing can be seen here.
//
// A mode is a policy with a number of ranks. Ranks, workers, the server and the chief are threads; a run is six steps
// of a network of 8 x 8 pixels that has all that models have: batch normalisation, a residual block, dropout. Of the
// seven policies of a server, "bsp" (workers push gradients) and "easgd" (workers step alone) are run. In the other
// five a worker does what it does in "bsp", and what is left of a key is the server's plan and what its policy decides.
// The modes "device" take their steps as on a GPU, where nothing is waited for, but on the CPU.
#include <gmock/gmock.h>
#include <torch/nn.h>

#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "paceline/comm/engine_local.h"
#include "paceline/core/check.h"
#include "paceline/core/file.h"
#include "paceline/core/recipe_keys.h"
#include "paceline/core/test_folder.h"
#include "paceline/models/conv_block.h"
#include "paceline/ps/server.h"
#include "paceline/schedule/from_recipe.h"
#include "paceline/serving/chief.h"
#include "paceline/serving/served_settings.h"
#include "paceline/serving/test_key_changes.h"
#include "paceline/serving/worker_loop.h"
#include "paceline/train/assemble.h"
#include "paceline/train/device_step.h"
#include "paceline/train/trainer.h"

namespace paceline {
namespace {

// ---- what is trained ------------------------------------------------------------------------------------------------

class WholeNetwork : public Model {
 public:
  explicit WholeNetwork(const ModelOptions& options)
      : first_(*this, {.conv = "conv1", .bn = "bn1", .shape = {.in = options.channels, .out = 4, .kernel = 3}}),
        second_(*this, {.conv = "conv2",
                        .bn = "bn2",
                        .shape = {.in = 4, .out = 4, .kernel = 3, .padding = 1},
                        .initial_gamma = options.zero_gamma ? 0.0 : 1.0}),
        dropout_(options.dropout) {
    fc_ = register_module("fc", std::make_shared<Linear>(4, options.classes));
  }
  torch::Tensor forward(torch::Tensor images) override {
    const torch::Tensor x = first_.forward(images);
    const torch::Tensor features = torch::adaptive_avg_pool2d(second_.forward(x, x), {1, 1}).flatten(1);
    return fc_->forward(drop(features, dropout_, is_training()));
  }

 private:
  ConvBlock first_, second_;
  double dropout_;
  std::shared_ptr<Linear> fc_;
};

// "in_files" is of made-up images, too; which ones, data.root decides.
Catalog catalog() {
  Catalog catalog;
  catalog.models.add(
      "whole", {"for tests", 8, [](const ModelOptions& options) { return std::make_shared<WholeNetwork>(options); }});
  catalog.datasets.add("in_files", {"for tests", {}, [](DatasetOptions options) {
                                      options.classes = 4;
                                      options.channels = 1;
                                      options.image_size = 8;
                                      options.seed += options.root.string().size();
                                      return builtin_datasets().at("synthetic").open(options);
                                    }});
  return catalog;
}

constexpr const char* kRecipe = R"(
[model]
name = "whole"
dropout = 0  # ranks that are threads share libtorch's generator: what each draws would be chance
[data]
name = "in_files"
train_samples = 48
test_samples = 16
[batch]
global = 16
[train]
epochs = 2
threads = 1
[optimizer]
rate = 0.05
)";

Recipe recipe_of(const Settings& settings) {
  std::vector<std::string> overrides;
  for (const auto& [key, value] : settings) overrides.push_back(key + "=" + value);
  return parse_recipe(kRecipe, "r.toml", overrides);
}

// ---- what a run leaves ----------------------------------------------------------------------------------------------

std::string text_of(const Summary& summary) {
  nlohmann::ordered_json all = to_json(summary), kept;
  // Nothing that is a copy of the recipe.
  for (const char* const name : {"weights_sha256", "ending", "parameters", "global_batch", "epochs", "steps", "samples",
                                 "skipped_steps", "test_loss", "test_accuracy", "test_top5", "target_epoch"})
    if (all.contains(name)) kept[name] = all[name];
  return kept.dump(1);
}

// Lines without what depends on time.
std::string metrics_of(const RunFolder& folder) {
  const std::set<std::string> timeless = {"kind",        "step",       "layer",         "loss",         "accuracy",
                                          "top5",        "rate",       "momentum",      "weight_norm",  "gradient_norm",
                                          "update_norm", "loss_scale", "skipped_steps", "global_batch", "density"};
  std::string text;
  std::istringstream lines(read_file(folder.root / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::ordered_json all = nlohmann::ordered_json::parse(line);
    nlohmann::ordered_json kept;
    for (const auto& [name, value] : all.items())
      if (timeless.contains(name)) kept[name] = value;
    text += kept.dump() + "\n";
  }
  return text;
}

std::string checkpoints_of(const RunFolder& folder) {
  std::string text;
  for (const CheckpointRef& checkpoint : CheckpointStore(folder.checkpoints(), 100).all())
    text += fmt::format("checkpoint {}\n", checkpoint.step);
  return text;
}

std::string run_over_ranks(const Recipe& recipe, int ranks, bool as_on_device) {
  const MemoryFolder memory;
  const RunFolder folder = {memory.path() / "run"};
  std::string text, said;
  Log log([&](std::string_view line) {
    if (line.find("one rank:") != std::string_view::npos) said += line;
  });
  run_ranks(ranks, [&](Group& group) {
    Trainer trainer(recipe, group,
                    {.run_folder = group.rank() == 0 ? folder : RunFolder{},
                     .log = &log,
                     .catalog = catalog(),
                     .as_on_device = as_on_device});
    const Summary summary = trainer.run();
    if (group.rank() == 0) text = text_of(summary);
  });
  if (ranks > 1) text += read_file(folder.plan());
  return text + said + metrics_of(folder) + checkpoints_of(folder);
}

// One worker: what it pushes, and in which order, does not depend on time. Which evaluations the chief makes on the way
// does, so only the summary is compared, which has the last one.
std::string run_on_a_server(const Recipe& recipe) {
  const MemoryFolder memory;
  const RunFolder folder = {memory.path() / "run"};
  const Catalog known = catalog();
  const DatasetPair data = open_data(recipe, known);
  FlatModel flat(build_model(recipe, known, *data.train));
  const ServerPlan plan = server_plan(recipe, flat.model(), data.train->size(), 1);
  const std::vector<float> weights = flat.weights();
  std::vector<std::unique_ptr<ParameterServer>> servers;
  std::vector<std::string> addresses;
  for (int shard = 0; shard < plan.map.shards(); ++shard) {
    servers.push_back(
        std::make_unique<ParameterServer>(ServerOptions{.shard = shard,
                                                        .map = plan.map,
                                                        .update = plan.update,
                                                        .coordinator = plan.coordinator,
                                                        .coordinator_address = shard > 0 ? addresses[0] : "",
                                                        .run = "walk",
                                                        .settings = served_settings(recipe, data),
                                                        .codec = updates_alone(recipe) ? "none" : recipe.comm.codec,
                                                        .state_folder = memory.path() / "state"},
                                          std::span(weights).subspan(plan.map.first(shard), plan.map.count(shard))));
    addresses.push_back(servers.back()->address());
  }
  auto chief = std::async(std::launch::async, [&] {
    return Chief(recipe, {.workers = 1, .servers = addresses, .run = "walk", .run_folder = folder, .catalog = known})
        .run();
  });
  WorkerLoop(recipe, {.servers = addresses, .run = "walk", .catalog = known}).run();
  const Summary summary = chief.get();
  return text_of(summary);
}

std::string run_in(const RunMode& mode, const Recipe& recipe) {
  if (mode.served) return run_on_a_server(recipe);
  Recipe of_gpu = recipe;  // a GPU waits for some steps, too
  of_gpu.train.device = "cuda";
  return run_over_ranks(recipe, mode.ranks, mode.as_on_device && DeviceStep::why_not(of_gpu, mode.ranks).empty());
}

// What the policy decides in a run whose workers differ in speed, eightfold.
std::string decisions_of(const CoordinatorOptions& coordinator) {
  constexpr int64_t kStepNs[] = {10, 10, 10, 11, 11, 29, 45, 80};
  struct Worker {
    int64_t done_ns = -1;  // -1: it waits
    uint64_t version = 0;
  };
  std::vector<Worker> workers(static_cast<size_t>(coordinator.sync.workers));
  const std::unique_ptr<Policy> policy = builtin_policies().at(coordinator.policy)(coordinator.sync);
  std::string text;
  int64_t now_ns = 0;
  std::map<uint64_t, double> samples_of;  // by version, in its mean
  const auto tell = [&](SyncEvent event) {
    event.time_ns = now_ns;
    std::optional<uint64_t> accumulated;  // into the mean of this version
    for (const Decision& decision : policy->on(event)) {
      text += to_text(decision) + "\n";
      if (decision.kind == Decision::Kind::accumulate) {
        accumulated = decision.version;
        samples_of[decision.version] += 8;
      }
      if (decision.kind != Decision::Kind::release) continue;
      const auto worker = static_cast<size_t>(decision.worker);
      workers[worker] = {now_ns + kStepNs[worker % std::size(kStepNs)], decision.version};
    }
    return accumulated;
  };
  for (size_t worker = 0; worker < workers.size(); ++worker)
    tell({.kind = SyncEvent::Kind::join, .worker = static_cast<int>(worker)});
  for (int push = 0; push < 300; ++push) {
    const auto next = std::ranges::min_element(
        workers, {}, [](const Worker& one) { return one.done_ns < 0 ? INT64_MAX : one.done_ns; });
    now_ns = next->done_ns;
    CHECK_GE(now_ns, 0);
    next->done_ns = -1;
    const std::optional<uint64_t> version = tell({.kind = SyncEvent::Kind::push,
                                                  .worker = static_cast<int>(next - workers.begin()),
                                                  .version = next->version,
                                                  .samples = 8,
                                                  .rate = 0.1});
    if (!policy->wants_noise() || !version) continue;
    const double samples = samples_of[*version], variance = *version % 2 == 0 ? 2.5 : 3.5;  // of a mean of length 1
    tell({.kind = SyncEvent::Kind::noise,
          .version = *version,
          .noise = {samples, 8 * samples, /*mean_norm2=*/1, /*spread=*/variance * (samples - 8)}});
  }
  return text;
}

std::string plan_of(const Recipe& recipe, int workers) {
  const Catalog known = catalog();
  const DatasetPair data = open_data(recipe, known);
  const std::shared_ptr<Model> model = build_model(recipe, known, *data.train);
  const ServerPlan plan = server_plan(recipe, *model, data.train->size(), workers);
  std::string text = settings_text(plan.update) + "\n" + decisions_of(plan.coordinator);
  for (const NamedLength& tensor : plan.map.tensors())
    text += fmt::format("\n{} {} {}", tensor.name, tensor.count, tensor.decayed);
  text += fmt::format("\n{} shards, lease {} ns", plan.map.shards(), plan.coordinator.lease_ns);
  text += fmt::format("\ndata {} samples {}", plan.coordinator.plan.data_size, plan.coordinator.plan.total_samples);
  const BatchSchedule batch = batch_schedule(recipe, workers, data.train->size());
  const Schedule rate = rate_schedule(recipe, static_cast<int64_t>(batch.at(0)));
  for (const double epoch : {0.0, 0.3, 0.7, 1.0, 1.3, 1.7})
    text += fmt::format("\nepoch {}: batch {} ({}), rate {}", epoch, plan.coordinator.plan.global_batch.at(epoch),
                        batch.at(epoch), rate(epoch));
  return text;
}

// ---- the walk -------------------------------------------------------------------------------------------------------

struct Outcome {
  std::string refused;  // the message
  std::string left;     // by the run, or planned
};

class KeysAndModes : public ::testing::Test {
 protected:
  // Each once: many keys are compared with the same run.
  const Outcome& outcome(const RunMode& mode, const Settings& settings, bool run) {
    const auto [place, is_new] = outcomes_.try_emplace({mode.name, settings, run});
    if (is_new) place->second = find_outcome(mode, settings, run);
    return place->second;
  }

  bool differ(const RunMode& mode, const Settings& one, const Settings& other, bool run) {
    const Outcome &left = outcome(mode, one, run), &right = outcome(mode, other, run);
    return left.refused.empty() && right.refused.empty() && left.left != right.left;
  }

 private:
  static Outcome find_outcome(const RunMode& mode, const Settings& settings, bool run) {
    try {
      const Recipe recipe = recipe_of(settings);
      if (!run) return {.left = plan_of(recipe, mode.ranks)};
      return {.left = run_in(mode, recipe)};
    } catch (const RecipeError& error) {
      return {.refused = error.what()};
    }
  }

  std::map<std::tuple<std::string, Settings, bool>, Outcome> outcomes_;
};

Settings with(Settings settings, const Settings& more) {
  for (const auto& [key, value] : more) settings.insert_or_assign(key, value);
  return settings;
}

bool is_allowed(const std::string& key, const RunMode& mode) {
  return std::ranges::any_of(kAllowedSilences,
                             [&](const AllowedSilence& allowed) { return allowed.key == key && allowed.in(mode); });
}

TEST_F(KeysAndModes, NoKeyIsIgnoredInSilence) {
  const RunMode& pushing = *std::ranges::find(modes(), "bsp", &RunMode::name);
  for (const auto& [key, change] : changes()) {
    bool accepted = false;
    for (const RunMode& mode : modes()) {
      if (key == "sync.rule" && mode.settings.contains(key)) continue;  // it is the mode
      const Settings before = with(mode.settings, change.context), after = with(before, change.to);
      const bool planned_first = mode.served;
      const std::string& refused = outcome(mode, after, /*run=*/!planned_first).refused;
      if (!refused.empty()) {
        // Either this key is refused, or one without which it means nothing.
        const bool named = std::ranges::any_of(with(change.context, change.to), [&](const auto& setting) {
          return refused.find(setting.first + ": ") != std::string::npos;
        });
        EXPECT_TRUE(named) << key << ", " << mode.name << ": " << refused;
        continue;
      }
      accepted = true;
      if (is_allowed(key, mode)) continue;
      bool changed = differ(mode, before, after, !planned_first);
      if (!changed && mode.served && mode.run) changed = differ(mode, before, after, /*run=*/true);
      if (!changed && mode.served && !mode.run) {
        // What the plan of "bsp" does not know is the worker's, who does here what it does there.
        const Settings bsp = with(change.context, pushing.settings), changed_bsp = with(bsp, change.to);
        changed = !differ(pushing, bsp, changed_bsp, /*run=*/false) && differ(pushing, bsp, changed_bsp, /*run=*/true);
      }
      EXPECT_TRUE(changed) << key << " has no effect, and is not refused: " << mode.name;
    }
    const bool needs_a_gpu = key == "data.resident" || key == "train.deterministic" || key == "train.graph";
    EXPECT_EQ(accepted, !needs_a_gpu) << key << " is refused in every mode of a CPU";
  }
}

// Otherwise chance would pass for an effect.
TEST_F(KeysAndModes, ARunThatIsNotChangedLeavesTheSame) {
  for (const RunMode& mode : modes()) {
    if (!mode.run) continue;
    const Recipe recipe = recipe_of(mode.settings);
    EXPECT_EQ(run_in(mode, recipe), run_in(mode, recipe)) << mode.name;
  }
}

TEST_F(KeysAndModes, EveryKeyIsWalkedOver) {
  for (const DeclaredSection& section : declared_sections()) {
    for (const DeclaredKey& key : section.keys) {
      const bool is_a_mode = key.full_name() == "sync.policy" || key.full_name() == "train.device";
      const bool walked = is_a_mode || changes().contains(key.full_name());
      EXPECT_TRUE(walked) << key.full_name();
    }
  }
  for (const AllowedSilence& allowed : kAllowedSilences) EXPECT_TRUE(changes().contains(allowed.key)) << allowed.key;
}

// Keys that the modes "device" cannot have, as their recipes say train.device = "cpu". There is no GPU here, so that
// only recipes can be looked at: which keys they take, beside train.device = "cuda".
TEST_F(KeysAndModes, KeysOfAGpuApplyThere) {
  const auto is_taken = [](Settings settings) {
    settings["train.device"] = "cuda";
    try {
      recipe_of(settings);
      return true;
    } catch (const RecipeError&) {
      return false;
    }
  };
  for (const auto& [key, change] : changes()) {
    const bool in_step = is_taken(with(change.context, change.to));
    const bool served = is_taken(with(with(change.context, change.to), {{"sync.policy", "bsp"}}));
    const bool on_both = key == "data.resident" || key == "train.deterministic";
    if (on_both || key == "train.graph") {
      EXPECT_TRUE(in_step) << key;
      EXPECT_EQ(served, on_both) << key;
    }
  }
}

}  // namespace
}  // namespace paceline
