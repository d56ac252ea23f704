// paceline: one program, one file per command. Owns what lives as long as the process; turns errors into one line on
// standard error and an exit code (docs/errors.md).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <string_view>

#include "paceline/cli/bench_command.h"
#include "paceline/cli/certs_command.h"
#include "paceline/cli/eval_command.h"
#include "paceline/cli/explain_command.h"
#include "paceline/cli/flight_command.h"
#include "paceline/cli/launch_command.h"
#include "paceline/cli/models_command.h"
#include "paceline/cli/profile_command.h"
#include "paceline/cli/recipe_command.h"
#include "paceline/cli/serve_command.h"
#include "paceline/cli/train_command.h"
#include "paceline/core/error.h"
#include "paceline/core/nearest.h"
#include "paceline/core/process_start.h"
#include "paceline/core/process_tuning.h"
#include "paceline/core/version.h"

namespace paceline {
namespace {

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

// CLI11 calls a mistyped command an unexpected argument; say what was probably meant.
void require_known_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  const std::vector<std::string> names = command_names(app);
  if (std::ranges::find(names, argv[1]) != names.end()) return;
  throw UsageError(fmt::format("there is no command '{}'{} (commands: {}; see 'paceline --help')", argv[1],
                               did_you_mean(argv[1], names), fmt::join(names, ", ")));
}

int run(int argc, char** argv) {
  CLI::App app("Paceline: fast, exact, distributed training of deep networks", "paceline");
  app.set_version_flag("--version", fmt::format("paceline {}", kVersion));
  app.require_subcommand(1);
  app.footer(
      "Start with:  paceline train recipes/fashion_mnist.toml\n"
      "Then look at 'paceline COMMAND --help', and docs/recipe.md for what a recipe can say.\n"
      "Exit codes: 0 done, 2 command line, 3 recipe, 4 data, 5 files, 6 training diverged, 7 another rank,\n"
      "            70 a bug, 130 interrupted.");

  ExitCode result = ExitCode::success;
  int exit_code = 0;  // of programs that were started
  add_train_command(app, argv[0], result, exit_code);
  add_serve_command(app, result);
  add_certs_command(app);
  add_eval_command(app);
  add_models_command(app);
  add_recipe_command(app);
  add_launch_command(app, exit_code);
  add_explain_command(app);
  add_profile_command(app, exit_code);
  add_bench_command(app, exit_code);
  add_flight_command(app);
  try {
    if (argc > 1 && std::string_view(argv[1]) == "train") tune_process(argv);
    require_known_command(app, argc, argv);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::usage);
  } catch (const Error& error) {
    if (!error.told()) fmt::print(stderr, "paceline: {}\n", error.what());
    return static_cast<int>(error.exit_code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "paceline: unexpected error: {}\n", error.what());
    return static_cast<int>(ExitCode::unexpected);
  }
  return exit_code != 0 ? exit_code : static_cast<int>(result);
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  paceline::open_closed_standard_streams();
  return paceline::run(argc, argv);
}
