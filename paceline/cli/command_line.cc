// The commands, one file each, behind one function. Owns what lives as long as the process; turns errors into one line
// on standard error and an exit code (docs/errors.md).
#include "paceline/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

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
#include "paceline/cli/usage.h"
#include "paceline/core/error.h"
#include "paceline/core/nearest.h"
#include "paceline/core/process_start.h"
#include "paceline/core/process_tuning.h"
#include "paceline/core/resource_failure.h"
#include "paceline/core/version.h"

namespace paceline {
namespace {

// Never throws, other than fmt::print(): where standard error cannot be written, the exit code still tells.
template <class... Values>
void tell(fmt::format_string<Values...> text, Values&&... values) {
  std::fputs(fmt::format(text, std::forward<Values>(values)...).c_str(), stderr);
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

// CLI11 calls a mistyped command an unexpected argument; say what was probably meant.
void require_known_command(const CLI::App& app, const std::string& name) {
  if (name.starts_with('-')) return;
  const std::vector<std::string> names = command_names(app);
  if (std::ranges::find(names, name) != names.end()) return;
  throw UsageError(fmt::format("there is no command '{}'{} (commands: {}; see 'paceline --help')", name,
                               did_you_mean(name, names), fmt::join(names, ", ")));
}

// Of a request for help too, which the parser throws.
int exit_code_of(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& arguments) {
  if (error.get_exit_code() == 0) return app.exit(error);
  const CLI::App& command = command_of(app);
  if (command.get_require_subcommand_min() > 0 && command.get_subcommands().empty() && command.remaining_size() == 0)
    tell("{}", app.help());  // the command's, with its whole name
  else
    tell("paceline: {}\n", what_is_wrong(app, error, arguments));
  return static_cast<int>(ExitCode::usage);
}

// What a command has printed may meet a full disk, which only the last flush tells. Nobody reading it is no error.
int with_output_written(int code) {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (flushed || code != 0 || errno == EPIPE) return code;
  tell("paceline: cannot write the output: {}\n",
       errno != 0 ? std::strerror(errno) : "a part of it is lost; is the disk full?");
  return static_cast<int>(ExitCode::file);
}

int run(int argc, char** argv, const Catalog& catalog) {
  CLI::App app("Paceline: fast, exact, distributed training of deep networks", "paceline");
  app.formatter(std::make_shared<HelpText>());
  app.set_version_flag("-V,--version", fmt::format("paceline {}", kVersion));
  app.require_subcommand(1);

  ExitCode result = ExitCode::success;
  int exit_code = 0;  // of programs that were started
  add_train_command(app, argv[0], catalog, result, exit_code);
  add_serve_command(app, catalog, result);
  add_certs_command(app);
  add_eval_command(app, catalog);
  add_models_command(app, catalog);
  add_recipe_command(app);
  add_launch_command(app, exit_code);
  add_explain_command(app, catalog);
  add_profile_command(app, exit_code);
  add_bench_command(app, exit_code);
  add_flight_command(app);
  app.footer(  // after the commands, which would inherit it
      "Start with:  paceline train recipes/fashion_mnist.toml\n"
      "Then look at 'paceline help COMMAND', and at 'paceline recipe keys' for what a recipe can say.\n"
      "Exit codes: 0 done, 2 command line, 3 recipe, 4 data, 5 files, memory or threads, 6 training diverged,\n"
      "            7 another rank, 70 a bug, 130 interrupted.");
  const std::vector<std::string> arguments = with_help_as_option({argv, argv + argc});
  try {
    if (arguments.size() > 1 && arguments[1] == "train") tune_process(argv);
    if (arguments.size() > 1) require_known_command(app, arguments[1]);
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend() - 1));
  } catch (const CLI::ParseError& error) {
    return exit_code_of(app, error, arguments);
  } catch (const Error& error) {
    if (!error.told()) tell("paceline: {}\n", error.what());
    return static_cast<int>(error.exit_code());
  } catch (const std::filesystem::filesystem_error& error) {  // a name that is too long, a folder that is none
    tell("paceline: {}: {}\n", error.path1().string(), error.code().message());
    return static_cast<int>(ExitCode::file);
  } catch (const std::exception& error) {
    if (const auto failure = resource_failure(error)) {
      tell("paceline: {}\n", *failure);
      return static_cast<int>(ExitCode::file);
    }
    tell("paceline: unexpected error: {}\n", error.what());
    return static_cast<int>(ExitCode::unexpected);
  }
  return exit_code != 0 ? exit_code : static_cast<int>(result);
}

// Before the initialisers of libraries: libtorch's alone need more memory than a small limit leaves.
[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)() = end_in_words_without_resources;

}  // namespace

int command_line(int argc, char** argv, const Catalog& catalog) {
  open_closed_standard_streams();
  return with_output_written(run(argc, argv, catalog));
}

}  // namespace paceline
