#include "paceline/collectives/link_text.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string_view>

#include "paceline/core/error.h"

namespace paceline {
namespace {

struct Quantity {
  double number = 0;
  std::string_view unit;
};

// Nothing behind the number but its unit; a number that is not above 0 has the unit "?".
Quantity quantity(std::string_view text) {
  Quantity parsed;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), parsed.number);
  if (failure != std::errc() || !std::isfinite(parsed.number) || !(parsed.number > 0)) return {0, "?"};
  parsed.unit = text.substr(static_cast<size_t>(end - text.data()));
  if (parsed.unit.starts_with(' ')) parsed.unit.remove_prefix(1);
  return parsed;
}

double factor_of(char prefix) {
  switch (prefix) {
    case 'K':
    case 'k':
      return 1e3;
    case 'M':
      return 1e6;
    case 'G':
      return 1e9;
    case 'T':
      return 1e12;
    default:
      return 0;
  }
}

}  // namespace

double parse_bandwidth(const std::string& text) {
  auto [number, unit] = quantity(text);
  if (unit.ends_with("/s")) unit.remove_suffix(2);
  if (unit.ends_with("ps")) unit.remove_suffix(2);
  const double factor = unit.empty() ? 0 : factor_of(unit.front());
  const std::string_view of = unit.empty() ? unit : unit.substr(1);
  if (factor > 0 && (of == "bit" || of == "b")) return number * factor / 8;
  if (factor > 0 && of == "B") return number * factor;
  throw UsageError(fmt::format("--link: '{}' is no bandwidth: write 25Gbit, 100Gbit or 3GB (a second)", text));
}

double parse_latency(const std::string& text) {
  const auto [number, unit] = quantity(text);
  if (unit == "ns") return number * 1e-9;
  if (unit == "us" || unit == "µs") return number * 1e-6;
  if (unit == "ms") return number * 1e-3;
  throw UsageError(fmt::format("--latency: '{}' is no latency: write 500ns, 3us or 0.5ms", text));
}

std::string describe(const Link& link) {
  const double bytes_per_s = 1 / link.beta_s_per_byte;
  return fmt::format("{:.3g} GB/s ({:.3g} Gbit/s), {:.3g} us a message", bytes_per_s * 1e-9, bytes_per_s * 8e-9,
                     link.alpha_s * 1e6);
}

std::string assumptions_of(const Cluster& cluster) {
  std::string text;
  if (cluster.ranks_per_host > 1)
    text += fmt::format("Assumed within a host ({}): {}\n", cluster.shared_memory ? "shared memory" : "of each rank",
                        describe(cluster.node));
  if (cluster.hosts > 1)
    text += fmt::format("Assumed between hosts (of each host): {}; --link and --latency set others\n",
                        describe(cluster.network));
  if (cluster.name == "abci") text += "abci: the ABCI cluster of published runs, 4 GPUs with NVLink in each node\n";
  return text;
}

}  // namespace paceline
