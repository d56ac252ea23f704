#include "paceline/cli/explain_command.h"
#include "paceline/cli/cluster_arguments.h"
#include "paceline/cli/explain_step_command.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "paceline/collectives/explain.h"
#include "paceline/collectives/plan.h"
#include "paceline/collectives/profile_table.h"
#include "paceline/collectives/stored_profile.h"
#include "paceline/core/bytes.h"
#include "paceline/core/error.h"

namespace paceline {
namespace {

struct ExplainArguments {
  ClusterArguments cluster;
  std::string grid;
  std::string bytes;
  bool json = false;
};

uint64_t parse_size(const std::string& text) {
  const auto bytes = parse_bytes(text);
  if (!bytes)
    throw UsageError(
        fmt::format("--bytes: '{}' is no size: write a whole number and KB, MB, GB, KiB, MiB or GiB", text));
  return *bytes;
}

nlohmann::ordered_json to_json(const Candidate& candidate) {
  nlohmann::ordered_json row = {{"algorithm", candidate.name},
                                {"steps", candidate.cost.steps},
                                {"bytes_per_rank", candidate.cost.bytes_per_rank},
                                {"network_bytes_per_host", candidate.cost.network_bytes_per_host},
                                {"predicted_seconds", candidate.cost.seconds},
                                {"measured_seconds", nullptr},
                                {"share_of_bound", candidate.share_of_bound}};
  if (candidate.measured_seconds) row["measured_seconds"] = *candidate.measured_seconds;
  return row;
}

void print_json(const Cluster& cluster, Grid grid, uint64_t bytes, const Measured& measured) {
  const std::vector<Candidate> candidates = all_reduce_candidates(cluster, grid, bytes, measured);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Candidate& candidate : candidates) rows.push_back(to_json(candidate));
  const nlohmann::ordered_json all = {{"platform", cluster.name},
                                      {"ranks", cluster.ranks},
                                      {"hosts", cluster.hosts},
                                      {"ranks_per_host", cluster.ranks_per_host},
                                      {"grid", to_text(grid)},
                                      {"bytes", bytes},
                                      {"bound_seconds", bound_seconds(cluster, static_cast<double>(bytes))},
                                      {"chosen", candidates.at(0).name},
                                      {"why", explain_choice(cluster, candidates)},
                                      {"candidates", rows}};
  fmt::print("{}\n", all.dump(2));
}

std::optional<Profile> find_profile(const Cluster& cluster, Grid grid) {
  const auto folder = profile_folder(process_environment());
  if (!folder) return std::nullopt;
  return stored_profile(cluster, grid, *folder,
                        [](const std::string& text) { fmt::print(stderr, "paceline: {}\n", text); });
}

void explain(const ExplainArguments& arguments) {
  const Cluster cluster = arguments.cluster.cluster();
  const Grid grid = arguments.grid.empty() ? cluster.default_grid() : parse_grid(arguments.grid, cluster.ranks);
  const uint64_t bytes = parse_size(arguments.bytes);
  const std::optional<Profile> profile = find_profile(cluster, grid);
  const Measured measured = profile ? measured_times(*profile, bytes) : Measured{};
  if (arguments.json) return print_json(cluster, grid, bytes, measured);
  fmt::print("{}", explain_all_reduce(cluster, grid, bytes, measured));
  if (profile)
    fmt::print("\nWhat runs here use, by their profile:\n{}{}", describe(make_plan(cluster, grid, &*profile)),
               noise_text(*profile));
}

}  // namespace

void add_explain_command(CLI::App& app, const Catalog& catalog) {
  CLI::App* command = app.add_subcommand("explain", "Say which algorithm is chosen, why, and what each would cost");
  command->require_subcommand(1);
  CLI::App* all_reduce = command->add_subcommand("allreduce", "The sum of a buffer over all ranks");
  const auto arguments = std::make_shared<ExplainArguments>();
  arguments->cluster.add_options(*all_reduce);
  all_reduce->add_option("--bytes", arguments->bytes, "Size of the buffer: 64MB, 4KiB")->required()->type_name("SIZE");
  all_reduce->add_option("--grid", arguments->grid, "Row length x rows of the torus (default: the most square one)");
  all_reduce->add_flag("--json", arguments->json, "Print as JSON");
  all_reduce->footer(
      "Examples:\n"
      "  paceline explain allreduce --ranks 64 --bytes 100MB\n"
      "  paceline explain allreduce --ranks 64 --ranks-per-host 8 --platform shm+gloo --link 25Gbit --latency 10us "
      "--bytes "
      "100MB\n"
      "  paceline explain allreduce --ranks 4 --platform shm --bytes 64KiB");
  all_reduce->callback([arguments] { explain(*arguments); });
  add_explain_step_command(*command, catalog);
}

}  // namespace paceline
