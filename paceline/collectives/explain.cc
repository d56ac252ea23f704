#include "paceline/collectives/explain.h"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/collectives/all_reduce.h"
#include "paceline/collectives/link_text.h"
#include "paceline/core/bytes.h"
#include "paceline/core/number_text.h"

namespace paceline {
namespace {

std::string time_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.2f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3f} ms", seconds * 1e3);
  return fmt::format("{:.3f} s", seconds);
}

std::string amount_text(double bytes) {
  if (bytes < 1e3) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1e6) return fmt::format("{:.1f} KB", bytes / 1e3);
  if (bytes < 1e9) return fmt::format("{:.1f} MB", bytes / 1e6);
  return fmt::format("{:.1f} GB", bytes / 1e9);
}

bool clearly_less(double a, double b) { return a < 0.99 * b; }

// What the costs say about why `best` is faster; where they are the same, what it does.
std::string reason(const Candidate& best, const Candidate& next) {
  if (best.measured_seconds && next.measured_seconds && best.cost.seconds > next.cost.seconds) return "as measured";
  if (clearly_less(best.cost.network_bytes_per_host, next.cost.network_bytes_per_host))
    return fmt::format("fewer bytes over a host's network link ({} instead of {})",
                       amount_text(best.cost.network_bytes_per_host), amount_text(next.cost.network_bytes_per_host));
  if (clearly_less(best.cost.bytes_per_rank, next.cost.bytes_per_rank))
    return fmt::format("fewer bytes per rank ({} instead of {})", amount_text(best.cost.bytes_per_rank),
                       amount_text(next.cost.bytes_per_rank));
  if (best.cost.steps < next.cost.steps)
    return fmt::format("fewer steps ({} instead of {})", best.cost.steps, next.cost.steps);
  return best.summary;
}

std::string cluster_text(const Cluster& cluster) {
  if (cluster.hosts == 1) return fmt::format("{} ranks on one host ({})", cluster.ranks, cluster.name);
  return fmt::format("{} ranks on {} hosts of {}{} ({})", cluster.ranks, cluster.hosts,
                     cluster.hosts_are_equal() ? "" : "up to ", cluster.ranks_per_host, cluster.name);
}

std::string row_text(const Candidate& candidate, Grid grid) {
  const std::string name = candidate.name == "torus2d" ? "torus2d " + to_text(grid) : candidate.name;
  return fmt::format(
      "{:<22}{:>8}{:>14}{:>14}{:>13}{:>13}{:>10}\n", name, with_commas(static_cast<uint64_t>(candidate.cost.steps)),
      amount_text(candidate.cost.bytes_per_rank), amount_text(candidate.cost.network_bytes_per_host),
      time_text(candidate.cost.seconds), candidate.measured_seconds ? time_text(*candidate.measured_seconds) : "-",
      fmt::format("{:.1f} %", 100 * candidate.share_of_bound));
}

}  // namespace

std::vector<Candidate> all_reduce_candidates(const Cluster& cluster, Grid grid, uint64_t bytes,
                                             const Measured& measured) {
  const double bound = bound_seconds(cluster, static_cast<double>(bytes));
  std::vector<Candidate> candidates;
  for (const AllReduceAlgorithm& algorithm : all_reduce_algorithms()) {
    if (!algorithm.applies(cluster)) continue;
    Candidate candidate = {algorithm.name, algorithm.summary,
                           algorithm.cost(cluster, grid, static_cast<double>(bytes))};
    if (const auto found = measured.find(algorithm.name); found != measured.end())
      candidate.measured_seconds = found->second;
    if (bound > 0) candidate.share_of_bound = bound / candidate.seconds();
    candidates.push_back(std::move(candidate));
  }
  std::ranges::stable_sort(candidates, {}, &Candidate::seconds);
  return candidates;
}

std::string explain_choice(const Cluster& cluster, const std::vector<Candidate>& candidates) {
  const Candidate& best = candidates.at(0);
  if (cluster.ranks == 1) return fmt::format("{}: a single rank has nothing to exchange.", best.name);
  const Candidate& next = candidates.at(1);  // ring and halving-doubling apply everywhere
  const double advantage = next.seconds() / best.seconds();
  if (advantage < 1.005) return fmt::format("{}: {}; {} takes as long.", best.name, best.summary, next.name);
  return fmt::format("{}: {:.2f} times as fast as {}, the next best: {}.", best.name, advantage, next.name,
                     reason(best, next));
}

std::string explain_all_reduce(const Cluster& cluster, Grid grid, uint64_t bytes, const Measured& measured) {
  const std::vector<Candidate> candidates = all_reduce_candidates(cluster, grid, bytes, measured);
  std::string text = explain_choice(cluster, candidates) + "\n\n";
  text += fmt::format("All-reduce of {} over {}; by the model's links no way takes less than {}.\n", print_bytes(bytes),
                      cluster_text(cluster), time_text(bound_seconds(cluster, static_cast<double>(bytes))));
  text += assumptions_of(cluster) + "\n";
  text += fmt::format("{:<22}{:>8}{:>14}{:>14}{:>13}{:>13}{:>10}\n", "algorithm", "steps", "bytes/rank", "network/host",
                      "predicted", "measured", "of model");
  for (const Candidate& candidate : candidates) text += row_text(candidate, grid);
  const auto beats = [](const Candidate& candidate) { return candidate.share_of_bound > 1; };
  if (std::ranges::any_of(candidates, beats))
    text += "Above 100 %: measured here in less time than the model's links would allow; this machine's are faster.\n";
  return text;
}

}  // namespace paceline
