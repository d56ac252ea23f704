#include "paceline/cli/bench_command.h"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/cli/at_least_one.h"
#include "paceline/cli/own_ranks.h"
#include "paceline/collectives/bench.h"
#include "paceline/collectives/platforms.h"
#include "paceline/core/bytes.h"
#include "paceline/core/file.h"

namespace paceline {
namespace {

struct BenchArguments {
  std::string engine;
  int ranks = 0;
  std::vector<std::string> bytes;
  std::string json;
  BenchOptions options;
};

std::vector<uint64_t> parse_sizes(const std::vector<std::string>& texts) {
  std::vector<uint64_t> sizes;
  for (const std::string& text : texts) {
    const auto bytes = parse_bytes(text);
    if (!bytes)
      throw UsageError(
          fmt::format("--bytes: '{}' is no size: write a whole number and KB, MB, GB, KiB, MiB or GiB", text));
    sizes.push_back(*bytes);
  }
  return sizes;
}

// Ranks that use MPI, for themselves or for a peer, must be started by mpirun.
bool needs_mpirun(const BenchArguments& arguments) {
  return arguments.engine.ends_with("mpi") || std::ranges::count(arguments.options.peers, "openmpi") > 0;
}

int start(const BenchArguments& arguments) {
  const int ranks = arguments.ranks == 0 ? 2 : arguments.ranks;
  const std::string engine = arguments.engine.empty() ? "shm" : arguments.engine;
  check(arguments.options, platform(engine == "auto" ? "shm" : engine, ranks));
  std::vector<std::string> more;
  if (arguments.engine.empty()) more = {"--engine", engine};
  return launch_own_ranks({.ranks = ranks, .engine = needs_mpirun(arguments) ? "mpi" : ""}, more);
}

void run(const BenchArguments& arguments) {
  require_ranks(arguments.ranks);
  World world = World::connect({.engine = arguments.engine.empty() ? "auto" : arguments.engine});
  const BenchReport report = bench_all_reduce(world, arguments.options);
  if (world.group().rank() != 0) return;
  fmt::print("{}", to_table(report));
  if (!arguments.json.empty()) replace_file(arguments.json, to_json(report), Readers::as_umask);
  if (const auto wrong = first_wrong_result(report)) throw InternalError(*wrong);
}

}  // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("bench", "Measure, beside other libraries in the same run");
  command->require_subcommand(1);
  CLI::App* all_reduce = command->add_subcommand("allreduce", "The sum of a buffer over all ranks");
  const auto arguments = std::make_shared<BenchArguments>();
  BenchOptions& options = arguments->options;
  all_reduce->add_option("--engine", arguments->engine, "shm, gloo, mpi, shm+gloo, shm+mpi (default: shm)");
  all_reduce->add_option("--ranks", arguments->ranks, "How many ranks to start (default: 2)")->check(at_least_one);
  all_reduce->add_option("--bytes", arguments->bytes, "Sizes: 1KiB,64K,4M (default: 1KiB to 64MiB in powers of 4)")
      ->delimiter(',');
  all_reduce
      ->add_option("--algorithm", options.algorithms,
                   "Algorithms, or hybrid: what the planner chooses (default: all that apply, and hybrid)")
      ->delimiter(',');
  all_reduce->add_option("--peers", options.peers, "Libraries to measure beside: openmpi,gloo (default: none)")
      ->delimiter(',');
  all_reduce->add_option("--trials", options.measure.trials, "Rounds at each size; large sizes get fewer, at least 5")
      ->check(at_least_one)
      ->capture_default_str();
  all_reduce->add_flag("--write", options.write,
                       "Write the buffer before every call, as a training step does; that time counts, for all alike");
  all_reduce->add_option("--json", arguments->json, "Also write rows and environment to this file");
  all_reduce->footer(
      "Examples:\n"
      "  paceline bench allreduce --ranks 4 --bytes 64KiB,1MiB\n"
      "  paceline bench allreduce --ranks 4 --peers openmpi,gloo --json all_reduce.json\n"
      "Ranks that mpirun, srun or 'paceline launch' started are used as they are. bench/README.md explains the table.");
  all_reduce->callback([arguments, &exit_code] {
    arguments->options.bytes = parse_sizes(arguments->bytes);
    arguments->options.hybrid.warn = [](const std::string& text) { fmt::print(stderr, "paceline: {}\n", text); };
    if (is_rank())
      run(*arguments);
    else
      exit_code = start(*arguments);
  });
}

}  // namespace paceline
