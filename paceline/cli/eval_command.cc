#include "paceline/cli/eval_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "paceline/comm/engine_local.h"
#include "paceline/core/log.h"
#include "paceline/core/stored_recipe.h"
#include "paceline/models/state.h"
#include "paceline/optim/weight_average.h"
#include "paceline/schedule/from_recipe.h"
#include "paceline/train/assemble.h"
#include "paceline/train/checkpoint.h"
#include "paceline/train/earlier_run.h"
#include "paceline/train/evaluator.h"
#include "paceline/train/loss.h"
#include "paceline/train/run_folder.h"

namespace paceline {
namespace {

struct EvalArguments {
  std::string run;
  std::string data;
  int64_t step = -1;
  bool json = false;
};

CheckpointRef choose_checkpoint(const RunFolder& folder, int64_t step) {
  const CheckpointStore store(folder.checkpoints(), /*keep=*/1);
  if (step < 0) {
    const auto search = store.find_newest_intact();
    for (const DamagedCheckpoint& damaged : search.damaged)
      fmt::print(stderr, "warning: skipped a damaged checkpoint: {}\n", damaged.text());
    if (!search.newest) throw DataError(fmt::format("{} holds no intact checkpoint", folder.checkpoints().string()));
    return *search.newest;
  }
  std::vector<int64_t> steps;
  for (const CheckpointRef& checkpoint : store.all()) {
    if (checkpoint.step != step) {
      steps.push_back(checkpoint.step);
    } else if (const auto damage = damage_of(checkpoint)) {
      throw DataError(fmt::format("{}: {}", checkpoint.folder.string(), *damage));
    } else {
      return checkpoint;
    }
  }
  throw UsageError(fmt::format("{} has no checkpoint of step {} (there are: {})", folder.root.string(), step,
                               fmt::join(steps, ", ")));
}

void evaluate(const EvalArguments& arguments, const Catalog& catalog) {
  const RunFolder folder = {arguments.run};
  if (!folder.holds_a_run())
    throw UsageError(fmt::format("{} holds no run; give the folder that 'paceline train' left", arguments.run));
  const CheckpointRef checkpoint = choose_checkpoint(folder, arguments.step);
  Recipe recipe = recipe_of(checkpoint, folder);
  if (!arguments.data.empty()) recipe.data.root = arguments.data;

  const DatasetPair data = open_data(recipe, catalog);
  const std::shared_ptr<Model> model = build_model(recipe, catalog, *data.train);
  std::unique_ptr<Optimizer> optimizer;  // has the average of the weights, where the run kept one
  if (recipe.optimizer.average > 0) {
    const auto batch = static_cast<int64_t>(batch_schedule(recipe, /*ranks=*/1, data.train->size()).at(0));
    optimizer = with_rate_of(recipe, *model, base_rate(recipe, batch), build_optimizer(recipe, catalog, *model, 1));
    load_checkpoint(checkpoint, *model, *optimizer);
  } else {
    load_weights(checkpoint, *model);
  }
  const std::string sha256 = weights_sha256(*model);
  const AveragedWeights averaged(optimizer ? optimizer->weight_average() : nullptr);
  const auto group = make_local_group();
  const Evaluation evaluation = Evaluator(data, recipe, *group, torch::kCPU)(*model).value();  // nothing stops it

  if (arguments.json) {
    const nlohmann::ordered_json json = {{"run", arguments.run},         {"checkpoint", checkpoint.folder.string()},
                                         {"step", checkpoint.step},      {"model", recipe.model.name},
                                         {"data", recipe.data.name},     {"samples", evaluation.samples},
                                         {"test_loss", evaluation.loss}, {"test_accuracy", evaluation.top1},
                                         {"test_top5", evaluation.top5}, {"weights_sha256", sha256}};
    fmt::print("{}\n", json.dump(2));
    return;
  }
  fmt::print("{} at step {} on {} test samples of {}: accuracy {:.2f} %, {}loss {:.4f}\n", recipe.model.name,
             checkpoint.step, evaluation.samples, recipe.data.name, 100 * evaluation.top1,
             top5_tells(data.test->classes()) ? fmt::format("top-5 {:.2f} %, ", 100 * evaluation.top5) : "",
             evaluation.loss);
}

}  // namespace

void add_eval_command(CLI::App& app, const Catalog& catalog) {
  CLI::App* command = app.add_subcommand("eval", "Measure the accuracy of a run's newest checkpoint on the test set");
  const auto arguments = std::make_shared<EvalArguments>();
  command->add_option("RUN_DIR", arguments->run, "The folder that 'paceline train' left")->required();
  command->add_option("--data", arguments->data, "The folder of the data set, when it is not where the run had it")
      ->type_name("DIR");
  command->add_option("--step", arguments->step, "The checkpoint of this step instead of the newest")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--json", arguments->json, "Print the result as JSON");
  command->footer(
      "Examples:\n"
      "  paceline eval runs/fashion_mnist\n"
      "  paceline eval runs/fashion_mnist --step 938 --json");
  command->callback([arguments, &catalog] { evaluate(*arguments, catalog); });
}

}  // namespace paceline
