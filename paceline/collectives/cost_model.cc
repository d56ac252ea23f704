#include "paceline/collectives/cost_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "paceline/core/check.h"
#include "paceline/core/error.h"

namespace paceline {
namespace {

std::optional<int> parse_side(std::string_view text) {
  int side = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), side);
  if (failure != std::errc() || end != text.data() + text.size() || side < 1) return std::nullopt;
  return side;
}

}  // namespace

std::string to_text(Grid grid) { return fmt::format("{}x{}", grid.x, grid.y); }

Grid parse_grid(const std::string& text, int ranks) {
  const size_t cross = text.find('x');
  const auto x = parse_side(std::string_view(text).substr(0, cross));
  const auto y = cross == std::string::npos ? std::nullopt : parse_side(std::string_view(text).substr(cross + 1));
  if (!x || !y)
    throw UsageError(
        fmt::format("'{}' is no grid: write row length x rows, such as {}", text, to_text(choose_grid(ranks, 0))));
  if (int64_t{*x} * *y != ranks)
    throw UsageError(fmt::format("the grid {} has {} places for {} ranks; {} would do", text, int64_t{*x} * *y, ranks,
                                 to_text(choose_grid(ranks, 0))));
  return {*x, *y};
}

Grid choose_grid(int ranks, int ranks_per_host) {
  const int unit = ranks_per_host == ranks ? 1 : std::max(1, ranks_per_host);  // one host: nothing to keep together
  Grid best = {ranks, 1};
  for (int x = ranks; x >= 1; --x) {
    if (ranks % x != 0 || x % unit != 0) continue;
    const Grid grid = {x, ranks / x};
    if (std::abs(grid.x - grid.y) < std::abs(best.x - best.y)) best = grid;
  }
  return best;
}

Cost operator+(const Cost& first, const Cost& second) {
  return {first.steps + second.steps, first.bytes_per_rank + second.bytes_per_rank,
          first.network_bytes_per_host + second.network_bytes_per_host, first.seconds + second.seconds};
}

Cost operator*(int times, const Cost& cost) {
  return {times * cost.steps, times * cost.bytes_per_rank, times * cost.network_bytes_per_host, times * cost.seconds};
}

Cluster part_of(const Cluster& cluster, int ranks, int ranks_per_host, int sharing) {
  Cluster part = cluster;
  part.ranks = ranks;
  part.ranks_per_host = std::min(ranks, ranks_per_host);
  part.hosts = (ranks + part.ranks_per_host - 1) / part.ranks_per_host;
  part.network.beta_s_per_byte *= sharing;
  return part;
}

double message_seconds(const Cluster& cluster, double bytes, int crossing) {
  const double network = cluster.network.alpha_s + crossing * bytes * cluster.network.beta_s_per_byte;
  const double node = cluster.node.alpha_s + bytes * cluster.node.beta_s_per_byte;
  if (crossing == 0) return node;
  return crossing < cluster.ranks_per_host ? std::max(node, network) : network;
}

int floor_log2(int number) {
  CHECK_GE(number, 1);
  return static_cast<int>(std::bit_width(static_cast<unsigned>(number))) - 1;
}

double bound_seconds(const Cluster& cluster, double bytes) {
  const auto through = [bytes](int parts, const Link& link) {
    return 2 * bytes * (parts - 1) / parts * link.beta_s_per_byte;
  };
  return std::max(through(cluster.ranks_per_host, cluster.node), through(cluster.hosts, cluster.network));
}

}  // namespace paceline
