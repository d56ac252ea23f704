#include "paceline/cli/profile_command.h"

#include <fmt/format.h>

#include "paceline/cli/at_least_one.h"
#include "paceline/cli/own_ranks.h"
#include "paceline/collectives/hybrid.h"
#include "paceline/collectives/profile_table.h"
#include "paceline/rendezvous/world.h"

namespace paceline {
namespace {

struct ProfileArguments {
  LaunchOptions launch;
  bool force = false;
};

// Half of the gradients' types are summed otherwise than f32: each is measured. Longer than a run would take for it.
ProfileOptions thorough() { return {.dtypes = {DType::f32, DType::f16, DType::bf16}, .trials = 15, .budget_s = 45}; }

void run(const ProfileArguments& arguments) {
  require_ranks(arguments.launch.ranks);
  World world = World::connect({.engine = arguments.launch.engine.empty() ? "auto" : arguments.launch.engine});
  HybridOptions options = {.profile = thorough()};
  if (arguments.force) options.measure = HybridOptions::Measure::always;
  options.warn = [](const std::string& text) { fmt::print(stderr, "paceline: {}\n", text); };
  const PlanDecision decision = decide_plan(world.group(), options);
  if (world.group().rank() != 0) return;
  fmt::print("{}", to_table(decision.profile, decision.plan));
  if (decision.profile_file.empty()) return;
  fmt::print("\n{}: {}\n", decision.profile_file.string(),
             decision.measured_now ? "measured now" : "measured before; --force measures again");
}

int start(const ProfileArguments& arguments) {
  LaunchOptions options = arguments.launch;
  if (options.ranks == 0 && options.hosts.empty()) options.ranks = 2;
  return launch_own_ranks(options, {});
}

}  // namespace

void add_profile_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("profile", "Measure the all-reduces here, for the planner, and show its plan");
  const auto arguments = std::make_shared<ProfileArguments>();
  LaunchOptions& launch = arguments->launch;
  command->add_option("--engine", launch.engine, "shm, gloo, mpi, shm+gloo, shm+mpi (default: as a run would choose)");
  command->add_option("--ranks", launch.ranks, "How many ranks to start (default: 2, or as --hosts says)")
      ->check(at_least_one);
  command->add_option("--hosts", launch.hosts, "Where, and how many there: a:4,b:4");
  command->add_option("--rsh", launch.rsh, "The command that reaches other hosts (default: ssh -o BatchMode=yes)");
  command->add_flag("--force", arguments->force, "Measure, also if there is a profile that fits");
  command->footer(
      "Examples:\n"
      "  paceline profile --ranks 4\n"
      "  paceline profile --hosts a:4,b:4 --engine shm+gloo --force\n"
      "Profiles are kept in PACELINE_PROFILE_DIR, else in ~/.cache/paceline, and used by every run with the same "
      "hosts,\n"
      "engine, ranks and version. Training uses it where it is there, and the cost model where it is not.");
  command->callback([arguments, &exit_code] {
    if (is_rank())
      run(*arguments);
    else
      exit_code = start(*arguments);
  });
}

}  // namespace paceline
