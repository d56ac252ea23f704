#include "step_checks.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Exception.h>

#include <cmath>
#include <functional>
#include <stdexcept>

#include "check_row.h"
#include "paceline/comm/engine_local.h"
#include "paceline/train/trainer.h"

namespace paceline {
namespace {

Recipe recipe(const std::vector<std::string>& settings) {
  return parse_recipe(R"(
    [model]
    name = "resnet20"
    [data]
    name = "synthetic"
    train_samples = 512
    test_samples = 128
    image_size = 32
    [augment]
    crop_padding = 4
    flip = true
    [batch]
    global = 64
    [optimizer]
    rate = 0.02
    [train]
    epochs = 4
    eval_every_epochs = 4
    device = "cuda"
    log_every_steps = 10
  )",
                      "check.toml", settings);
}

Summary train(const std::vector<std::string>& settings) {
  const auto group = make_local_group();
  return Trainer(recipe(settings), *group, {}).run();
}

using Settings = std::vector<std::string>;

Settings joined(Settings one, const Settings& other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}

bool succeeded = true;

void check(const char* what, const std::vector<Settings>& cases, const std::function<double(const Settings&)>& error,
           double limit) {
  double most = 0;
  for (const Settings& settings : cases) {
    double found = NAN;
    try {
      found = error(settings);
    } catch (const std::exception& failure) {
      fmt::print("  {} [{}]: {}\n", what, settings.empty() ? "" : settings.front(), failure.what());
    }
    if (!std::isnan(most) && !(found <= most)) most = found;  // a failure stays one
  }
  const bool failed = !(most <= limit);
  succeeded = succeeded && !failed;
  print_check("training step", what, static_cast<int>(cases.size()), most, failed);
}

// Weights, and what evaluation saw, which may be an average of them.
double differs(const Settings& a, const Settings& b) {
  const Summary one = train(a), other = train(b);
  return one.weights_sha256 == other.weights_sha256 && one.test_loss == other.test_loss ? 0 : 1;
}

// Recorded steps beside the same ones launched piece by piece; 2, 3: they were not.
double differs_from_pieces(const Settings& settings) {
  const Summary graph = train(settings), pieces = train(joined(settings, {"train.graph=never"}));
  if (graph.graph_steps == 0) return 2;
  if (pieces.graph_steps > 0) return 3;
  return graph.weights_sha256 == pieces.weights_sha256 && graph.test_loss == pieces.test_loss ? 0 : 1;
}

// Counts what libtorch says of calls that wait for the device.
class WaitCounter : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    if (std::string(warning.msg()).find("synchroniz") != std::string::npos) {
      if (waits == 0) fmt::print("  waits: {}\n", warning.msg());
      ++waits;
    }
  }
  int waits = 0;
};

// In steps after the first ones, of a run that reports nothing meanwhile.
double waits_in(const Settings& settings) {
  const auto group = make_local_group();
  // The first half of the run may wait (recording, choosing algorithms): two runs that differ in length only. Each is
  // one epoch, since a line at the end of each waits.
  const auto waits_of = [&](int length) {
    WaitCounter counter;
    const c10::WarningUtils::WarningHandlerGuard guard(&counter);
    const c10::WarningUtils::WarnAlways always(true);
    c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_WARN);
    Trainer(recipe(joined(settings, {fmt::format("data.train_samples={}", 512 * length), "train.epochs=1",
                                     "train.eval_every_epochs=1", "train.log_every_steps=100000",
                                     "checkpoint.every_steps=100000"})),
            *group, {})
        .run();
    c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_DISABLED);
    return counter.waits;
  };
  const int short_run = waits_of(4);
  return std::abs(waits_of(8) - short_run);
}

}  // namespace

bool step_checks() {
  const Settings exact = {"train.deterministic=true"};
  std::vector<Settings> optimizers;
  for (const std::string optimizer : {"sgd", "lars", "adam", "rmsprop", "adabound", "hybrid"})
    for (const std::string precision : {"f32", "f16", "bf16"}) {
      Settings settings = {"optimizer.name=" + optimizer, "train.precision=" + precision};
      if (optimizer == "hybrid") settings.push_back("optimizer.hybrid_epochs=1.5");
      optimizers.push_back(settings);
    }
  check(
      "two runs, deterministic", optimizers,
      [&](const Settings& s) { return differs(joined(s, exact), joined(s, exact)); }, 0);
  check(
      "graph = no graph", optimizers, [&](const Settings& s) { return differs_from_pieces(joined(s, exact)); }, 0);
  const std::vector<Settings> overflowing = {
      {"train.precision=f16", "precision.loss_scale=1e11"},
      {"train.precision=f16", "precision.loss_scale=1e11", "precision.growth_steps=3"},
      {"train.precision=f16", "precision.loss_scale=1e11", "optimizer.name=adam", "optimizer.rate=0.001"},
      {"train.precision=f16", "precision.loss_scale=1e11", "optimizer.name=adabound", "optimizer.rate=0.001"},
      {"train.precision=f16", "precision.loss_scale=1e11", "optimizer.name=lars",
       "optimizer.momentum_correction=true"}};
  check(
      "overflows: graph = no graph", overflowing,
      [&](const Settings& s) {
        const Summary summary = train(joined(s, exact));
        if (summary.skipped_steps == 0) return 2.0;
        if (!(summary.train_loss < 3)) return 3.0;
        return differs_from_pieces(joined(s, exact));
      },
      0);
  check(
      "dropout: graph = no graph", {{"model.name=alexnet", "data.image_size=64", "augment.crop_padding=0"}},
      [&](const Settings& s) { return differs_from_pieces(joined(s, exact)); }, 0);
  const Settings clipped = {"optimizer.clip_norm=0.5", "optimizer.average=0.9"};
  check(
      "clipped, averaged: graph = no graph", {clipped, joined({"train.precision=f16"}, clipped)},
      [&](const Settings& s) { return differs_from_pieces(joined(s, exact)); }, 0);
  const Settings passes = {"batch.micro=24", "train.precision=f16"};
  check(
      "several passes: graph = no graph", {passes, joined(passes, {"batch_norm.statistics=last_iteration"})},
      [&](const Settings& s) { return differs_from_pieces(joined(s, exact)); }, 0);
  check(
      "resident = copied batches", {{}},
      [&](const Settings& s) { return differs(joined(s, exact), joined(joined(s, exact), {"data.resident=never"})); },
      0);
  // From both sides a run finds a rate that it learns with, and two find the same.
  check(
      "found rate: two runs, learning", {{"optimizer.rate=0.01"}, {"optimizer.rate=10"}},
      [&](const Settings& s) {
        const Settings found = joined(joined(s, exact), {"sync.rate=barzilai_borwein", "optimizer.momentum=0.9"});
        if (!(train(found).train_loss < 2.2)) return 2.0;  // it begins with 2.3
        return differs(found, found);
      },
      0);
  const Settings wild = {"optimizer.rate=1e30"};
  check(
      "divergence names step and layer",
      {wild, joined({"train.graph=never"}, wild), joined({"train.precision=f16", "precision.most_skips=3"}, wild)},
      [&](const Settings& s) {
        std::string text = "no error: it did not diverge";
        try {
          train(s);
        } catch (const TrainingError& error) {
          text = error.what();
        }
        if (text.find("is the first layer whose output is not finite") == std::string::npos)
          throw std::runtime_error(text);
        return 0.0;
      },
      0);
  check(
      "last loss, beside the CPU's", {{"train.max_steps=6"}, {"train.max_steps=6", "optimizer.clip_norm=0.5"}},
      [&](const Settings& s) {
        const double gpu = train(s).train_loss;
        const Settings on_cpu = joined(s, {"train.device=cpu"});
        return std::abs(gpu - train(on_cpu).train_loss) / gpu;
      },
      0.01);
  check("waits for the device",
        {{"train.precision=f32"},
         {"train.precision=f16"},
         {"train.precision=f16", "train.graph=never"},
         {"train.precision=f16", "optimizer.name=lars"},
         {"train.precision=f16", "optimizer.name=adam"},
         {"train.precision=f16", "optimizer.name=adabound"},
         passes,
         joined({"train.precision=f16"}, clipped)},
        waits_in, 0);
  return succeeded;
}

}  // namespace paceline
