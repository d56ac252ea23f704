#include "paceline/cli/train_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <iostream>

#include "paceline/cli/interrupt.h"
#include "paceline/cli/run_choice.h"
#include "paceline/comm/engine_local.h"
#include "paceline/core/file.h"
#include "paceline/rendezvous/identity.h"
#include "paceline/train/run_lock.h"
#include "paceline/train/trainer.h"

namespace paceline {
namespace {

struct TrainArguments {
  std::string program;  // as it was called, for commands that people can copy
  std::string recipe;
  std::vector<std::string> overrides;
  std::string out;
  bool resume = false;
  bool json = false;
  bool quiet = false;
};

std::string command_to_resume(const TrainArguments& arguments, const RunFolder& folder) {
  std::string command = fmt::format("{} train {}", arguments.program, arguments.recipe);
  for (const std::string& override_ : arguments.overrides) command += fmt::format(" --set {}", override_);
  return command + fmt::format(" --out {} --resume", folder.root.string());
}

void print_results(const Summary& summary, const RunFolder& folder) {
  const std::string root = folder.root.string();
  fmt::print("\n{}", to_table(summary));
  fmt::print("  {:<14}{}/ (summary.json, metrics.jsonl, curves.svg, checkpoints/)\n", "results", root);
  fmt::print("  {:<14}tensorboard --logdir {}\n", "", root);
}

// Several ranks would each train alone, in one folder.
void require_one_rank() {
  const Identity identity = find_identity(process_environment());
  if (identity.size > 1)
    throw UsageError(
        fmt::format("this is rank {} of {}, but training runs on one rank as yet: start it without launcher",
                    identity.rank, identity.size));
}

ExitCode train(const TrainArguments& arguments) {
  require_one_rank();
  const Recipe recipe = read_recipe(arguments.recipe, arguments.overrides);
  const RunFolder folder = choose_run_folder(recipe.title, arguments.out, arguments.resume);
  make_directories(folder.root);
  const RunLock lock(folder);

  Progress progress(stderr, !arguments.quiet && isatty(STDERR_FILENO) != 0,
                    arguments.quiet ? 0 : recipe.train.log_every_steps);
  Log log([&](std::string_view line) { progress.line(line); });
  if (arguments.quiet) log.set_level(Log::Level::warning);
  log.write_to(folder.log());
  const Interrupt interrupt(
      [&] { log.info("stopping after this step and writing a checkpoint (Ctrl-C again: stop at once)"); });

  const auto group = make_local_group();
  try {
    Trainer trainer(recipe, *group,
                    {.run_folder = folder,
                     .resume = arguments.resume,
                     .log = &log,
                     .progress = arguments.quiet ? nullptr : &progress,
                     .stop = interrupt.token()});
    const Summary summary = trainer.run();
    if (arguments.json) {
      fmt::print("{}\n", to_json(summary).dump(2));
    } else {
      print_results(summary, folder);
    }
    if (summary.ending != "interrupted") return ExitCode::success;
    log.info("interrupted at step {}; go on with:\n  {}", summary.steps, command_to_resume(arguments, folder));
    return ExitCode::interrupted;
  } catch (const Error& error) {
    progress.finish();
    log.debug("failed: {}", error.what());  // for log.txt; main tells the terminal
    throw;
  }
}

}  // namespace

void add_train_command(CLI::App& app, const std::string& program, ExitCode& result) {
  CLI::App* command =
      app.add_subcommand("train", "Train a model as a recipe says, and leave a folder with the results");
  const auto arguments = std::make_shared<TrainArguments>();
  arguments->program = program;
  command->add_option("RECIPE", arguments->recipe, "The recipe, a TOML file; 'paceline recipe keys' explains every key")
      ->required();
  command
      ->add_option("--set", arguments->overrides, "Replace a key of the recipe: --set train.epochs=3 (may be repeated)")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  command
      ->add_option("--out", arguments->out,
                   "The folder for the results (default: runs/NAME, or runs/NAME-2 ... when taken)")
      ->type_name("DIR");
  command->add_flag("--resume", arguments->resume,
                    "Go on from the newest intact checkpoint in the folder (default: the recipe's last run)");
  command->add_flag("--json", arguments->json, "Print the summary as JSON on standard output");
  command->add_flag("--quiet", arguments->quiet, "No progress, only warnings and the results");
  command->footer(
      "Examples:\n"
      "  paceline train recipes/fashion_mnist.toml\n"
      "  paceline train recipes/fashion_mnist.toml --set train.epochs=1 --set optimizer.rate=0.05 --out runs/try\n"
      "  paceline train recipes/fashion_mnist.toml --resume\n"
      "Ctrl-C writes a checkpoint and says how to go on.");
  command->callback([arguments, &result] { result = train(*arguments); });
}

}  // namespace paceline
