#include "paceline/cli/launch_command.h"

#include <fmt/format.h>

#include "paceline/cli/crowding.h"
#include "paceline/core/error.h"
#include "paceline/launch/child_process.h"
#include "paceline/launch/launch.h"
#include "paceline/launch/launch_agent.h"

namespace paceline {
namespace {

constexpr const char* kWithoutNumber = "true";  // what CLI11 makes of --restart alone

struct LaunchArguments {
  LaunchOptions options;
  std::string restart;
  bool no_prefix = false;
  bool agent = false;
};

// `paceline launch -n 2 train R.toml`: the word is a command of this program, not a program.
void require_program(const CLI::App& app, const std::vector<std::string>& command) {
  if (command.empty()) return;
  try {
    find_program(command.front());
  } catch (const UsageError& error) {
    const auto meant = [&](const CLI::App* subcommand) { return subcommand->get_name() == command.front(); };
    if (app.get_subcommands(meant).empty()) return;  // launch() tells, and other hosts may have it
    throw UsageError(fmt::format("{}; did you mean 'paceline {}'?", error.what(), command.front()));
  }
}

}  // namespace

void add_launch_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("launch", "Start the ranks of a run, here or on several hosts");
  const auto arguments = std::make_shared<LaunchArguments>();
  LaunchOptions& options = arguments->options;
  command->add_option("-n,--ranks", options.ranks, "How many ranks; with --hosts, their sum")
      ->check(CLI::Range(1, 1'000'000));
  command->add_option("--hosts", options.hosts, "Where, and how many there: a:4,b:4 (a gets ranks 0 to 3)");
  command->add_option("--rsh", options.rsh, "The command that reaches other hosts (default: ssh -o BatchMode=yes)");
  command->add_option("--remote-program", options.remote_program,
                      "paceline on other hosts (default: the path of this one)");
  command->add_option(
      "--engine", options.engine,
      "How ranks talk: shm, gloo, mpi, shm+gloo, shm+mpi; mpirun starts those with mpi (default: as the program "
      "chooses)");
  command->add_option("--address", options.address, "This host's address, as the others reach it (default: found out)");
  command->add_option("--timeout", options.timeout_s, "Seconds until a rank that waits for others gives up")
      ->check(CLI::Range(0.001, 1e6));
  command
      ->add_flag("--restart", arguments->restart,
                 "Start a rank again that fails, at most N times (default: 10); all of them, where they form a group")
      ->option_text("[=N]")
      ->check([](const std::string& text) { return text == kWithoutNumber ? "" : CLI::Range(0, 1'000'000)(text); });
  command->add_flag("--no-prefix", arguments->no_prefix, "Print lines without the ranks' numbers");
  command->add_flag("--agent", arguments->agent)->group("");  // what the launcher starts on other hosts
  command->add_option("PROGRAM", options.command, "What each rank runs, behind '--', with its arguments");
  command->footer(
      "Examples:\n"
      "  paceline launch -n 4 -- ./my_program\n"
      "  paceline launch -n 8 --hosts a:4,b:4 -- paceline train recipes/fashion_mnist.toml --out runs/r\n"
      "  paceline launch -n 4 --restart=3 -- paceline train R.toml --servers a:7000 --out runs/r\n"
      "Exit codes: that of the rank that failed first (128 + signal), 2 command line, 7 a host was not reached,\n"
      "            130 Ctrl-C, 143 SIGTERM. docs/launch.md has the rest.");
  command->callback([&app, arguments, &exit_code] {
    require_program(app, arguments->options.command);
    arguments->options.prefixes = !arguments->no_prefix;
    if (arguments->restart == kWithoutNumber) {
      arguments->options.restarts = 10;
    } else if (!arguments->restart.empty()) {
      arguments->options.restarts = std::stoi(arguments->restart);
    }
    const LaunchOptions& asked = arguments->options;
    if (!arguments->agent && asked.hosts.empty()) require_possible(fmt::format("-n {}", asked.ranks), asked.ranks);
    exit_code = arguments->agent ? run_launch_agent() : launch(arguments->options);
  });
}

}  // namespace paceline
