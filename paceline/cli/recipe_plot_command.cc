#include "paceline/cli/recipe_plot_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "paceline/cli/at_least_one.h"
#include "paceline/core/file.h"
#include "paceline/core/number_text.h"
#include "paceline/core/recipe.h"
#include "paceline/data/dataset.h"
#include "paceline/data/run_phases.h"
#include "paceline/schedule/from_recipe.h"
#include "paceline/schedule/schedule_chart.h"

namespace paceline {
namespace {

struct PlotArguments {
  std::string file, out;
  std::vector<std::string> overrides;
  int ranks = 0;
};

// How many samples the recipe trains on. The data itself need not be here.
uint64_t train_samples(const Recipe& recipe) {
  const Registry<DatasetInfo> datasets = builtin_datasets();
  if (!datasets.contains(recipe.data.name)) recipe.refuse("data.name", datasets.unknown(recipe.data.name));
  if (recipe.data.train_samples > 0) return static_cast<uint64_t>(recipe.data.train_samples);
  return datasets.at(recipe.data.name).train_samples;
}

std::string in_words(uint64_t count, const char* noun) {
  return fmt::format("{} {}{}", with_commas(count), noun, count == 1 ? "" : "s");
}

void print_phases(const std::vector<RunPhase>& phases) {
  fmt::print("  {:<14} {:>9}  {:>14}  {:<20} {:>8}  {:>9}\n", "epochs", "batch", "ranks x share", "rate", "momentum",
             "steps");
  for (const RunPhase& phase : phases) {
    const std::string rate = phase.rate == phase.rate_last
                                 ? fmt::format("{:.4g}", phase.rate)
                                 : fmt::format("{:.4g} to {:.4g}", phase.rate, phase.rate_last);
    fmt::print("  {:<14} {:>9}  {:>14}  {:<20} {:>8.4g}  {:>9}\n", fmt::format("{:g} to {:g}", phase.from, phase.to),
               with_commas(phase.batch),
               fmt::format("{} x {}", with_commas(static_cast<uint64_t>(phase.active_ranks)), with_commas(phase.share)),
               rate, phase.momentum, with_commas(phase.steps));
  }
}

void plot(const PlotArguments& arguments) {
  const Recipe recipe = read_recipe(arguments.file, arguments.overrides);
  const uint64_t samples = train_samples(recipe);
  const int ranks = arguments.ranks > 0 ? arguments.ranks : ranks_occupied(recipe, samples);
  const std::vector<RunPhase> phases = run_phases(recipe, ranks, samples);

  SchedulePlan plan;
  plan.epochs = phases.back().to;
  plan.batch = batch_schedule(recipe, ranks, samples);
  plan.rate = rate_schedule(recipe, static_cast<int64_t>(plan.batch.at(0)));
  plan.momentum = momentum_schedule(recipe, plan.batch);
  uint64_t steps = 0;
  for (const RunPhase& phase : phases) {
    if (phase.from > 0) plan.changes.push_back(phase.from);
    steps += phase.steps;
  }
  plan.title = fmt::format("{}: {:g} epochs in {} on {}", recipe.title, plan.epochs, in_words(steps, "step"),
                           in_words(static_cast<uint64_t>(ranks), "rank"));

  const std::string out = arguments.out.empty() ? recipe.title + ".svg" : arguments.out;
  replace_file(out, schedule_chart_svg(plan), Readers::as_umask);
  fmt::print("{}, {} in an epoch\n\n", plan.title, in_words(samples, "sample"));
  print_phases(phases);
  fmt::print("\n  plot written to {}\n", out);
}

}  // namespace

void add_recipe_plot_command(CLI::App& recipe) {
  const auto arguments = std::make_shared<PlotArguments>();
  CLI::App* command = recipe.add_subcommand("plot", "Draw rate, momentum and batch of a recipe over its epochs");
  command->add_option("RECIPE", arguments->file, "A TOML file")->required();
  command->add_option("--set", arguments->overrides, "Replace a key of the recipe (may be repeated)")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--out", arguments->out, "The SVG to write (default: the recipe's name, in this folder)");
  command
      ->add_option("--ranks", arguments->ranks,
                   "How many ranks; decides the batch where the recipe has batch.local (default: as many as "
                   "batch.fill occupies, or 1)")
      ->check(at_least_one);
  command->footer(
      "Examples:\n"
      "  paceline recipe plot recipes/mikami_exp1.toml\n"
      "  paceline recipe plot recipes/fashion_mnist.toml --ranks 4 --set batch.local=64 --out plan.svg\n"
      "Trains nothing and needs no data.");
  command->callback([arguments] { plot(*arguments); });
}

}  // namespace paceline
