#include "paceline/collectives/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "paceline/collectives/size_table.h"
#include "paceline/core/bytes.h"

namespace paceline {
namespace {

std::vector<uint64_t> sizes_of(const BenchReport& report) {
  std::vector<uint64_t> sizes;
  for (const BenchRow& row : report.rows)
    if (std::ranges::find(sizes, row.bytes) == sizes.end()) sizes.push_back(row.bytes);
  return sizes;
}

// What a row of the table stands for.
struct Line {
  std::string engine;
  std::string algorithm;
  bool operator==(const Line&) const = default;
};

std::vector<Line> lines_of(const BenchReport& report) {
  std::vector<Line> lines;
  for (const BenchRow& row : report.rows)
    if (std::ranges::find(lines, Line{row.engine, row.algorithm}) == lines.end())
      lines.push_back({row.engine, row.algorithm});
  return lines;
}

const BenchRow& find_row(const BenchReport& report, const Line& line, uint64_t bytes) {
  const auto found = std::ranges::find_if(report.rows, [&](const BenchRow& row) {
    return row.bytes == bytes && row.engine == line.engine && row.algorithm == line.algorithm;
  });
  CHECK_TRUE(found != report.rows.end(), "{} {} was not measured at {} bytes", line.engine, line.algorithm, bytes);
  return *found;
}

const BenchRow* find_hybrid(const BenchReport& report, uint64_t bytes) {
  const auto found =
      std::ranges::find_if(report.rows, [&](const BenchRow& row) { return row.bytes == bytes && row.is_hybrid(); });
  return found == report.rows.end() ? nullptr : &*found;
}

// Half the distance of the quartiles, as a share of the median.
double spread_of(const Timing& timing) {
  return (timing.upper_quartile_s - timing.lower_quartile_s) / 2 / timing.median_s;
}

std::string spread_text(const Timing& timing) { return fmt::format("±{:.0f}%", 100 * spread_of(timing)); }

// The hybrid, and the peers that it is compared with.
bool is_compared(const BenchReport& report, const Line& line) {
  const BenchRow& row = find_row(report, line, report.rows.front().bytes);
  return row.is_hybrid() || row.is_peer();
}

std::string label_of(const Line& line) {
  if (line.algorithm == "native") return line.engine + " native";
  return line.algorithm;
}

using Cells = std::vector<SizeTable::Cell>;

void add_contender(SizeTable& table, const BenchReport& report, const Line& line) {
  Cells times, spreads, bandwidths;
  for (const uint64_t bytes : sizes_of(report)) {
    const BenchRow& row = find_row(report, line, bytes);
    const BenchRow* const hybrid = find_hybrid(report, bytes);
    const bool chosen = hybrid != nullptr && hybrid->engine == line.engine && hybrid->chose == line.algorithm;
    times.push_back({microseconds_text(row.microseconds()), chosen});
    spreads.push_back({spread_text(row.timing)});
    bandwidths.push_back({fmt::format("{:.2f}", row.bus_gbps())});
  }
  table.add(label_of(line), std::move(times));
  if (is_compared(report, line)) table.add("  quartiles", std::move(spreads));
  if (line.algorithm == "hybrid") table.add("  bus GB/s", std::move(bandwidths));
}

std::string verdict(const BenchReport& report, const std::vector<Speedup>& speedups) {
  if (speedups.empty()) return "";
  if (is_noisy(report))
    return "\nNo comparison: the times scatter too much (see the quartiles). Something else keeps this machine busy; "
           "measure again when it is not.\n";
  const Speedup& worst = std::ranges::min(speedups, {}, &Speedup::times);
  return fmt::format(
      "\nhybrid against the better peer: {:.2f} times as fast in the geometric mean, {:.2f} at worst ({})\n",
      geometric_mean(speedups), worst.times, print_bytes(worst.bytes));
}

nlohmann::ordered_json to_json(const BenchEnvironment& environment) {
  return {{"version", environment.version},
          {"engine", environment.engine},
          {"ranks", environment.ranks},
          {"layout", environment.layout},
          {"hosts", environment.hosts},
          {"cores", environment.cores},
          {"processor", environment.processor},
          {"kernel", environment.kernel},
          {"compiler", environment.compiler},
          {"trials", environment.trials},
          {"dtype", "f32"},
          {"plan", environment.plan},
          {"written", environment.written}};
}

nlohmann::ordered_json to_json(const BenchRow& row) {
  nlohmann::ordered_json json = {{"engine", row.engine},
                                 {"algorithm", row.algorithm},
                                 {"ranks", row.ranks},
                                 {"bytes", row.bytes},
                                 {"microseconds", row.microseconds()},
                                 {"bus_gbps", row.bus_gbps()},
                                 {"max_error", row.max_error},
                                 {"lower_quartile_microseconds", row.timing.lower_quartile_s * 1e6},
                                 {"upper_quartile_microseconds", row.timing.upper_quartile_s * 1e6},
                                 {"trials", row.timing.trials},
                                 {"calls_per_trial", row.timing.calls}};
  if (!row.chose.empty()) json["chose"] = row.chose;
  return json;
}

}  // namespace

double BenchRow::bus_gbps() const {
  return 2.0 * (ranks - 1) / ranks * static_cast<double>(bytes) / timing.median_s * 1e-9;
}

std::string to_json(const BenchReport& report) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const BenchRow& row : report.rows) rows.push_back(to_json(row));
  return nlohmann::ordered_json{{"environment", to_json(report.environment)}, {"rows", rows}}.dump(1) + "\n";
}

std::string to_table(const BenchReport& report) {
  const BenchEnvironment& environment = report.environment;
  std::string text = fmt::format(
      "All-reduce (f32, sum) over {} ranks, engine {}, {}\n"
      "Microseconds, medians of up to {} trials; * is what the hybrid chose{}\n",
      environment.ranks, environment.engine, fmt::join(environment.hosts, "; "), environment.trials,
      environment.written ? "; buffers are written before every call" : "");
  SizeTable table(sizes_of(report));
  for (const Line& line : lines_of(report)) add_contender(table, report, line);
  const std::vector<Speedup> speedups = hybrid_speedups(report);
  if (!speedups.empty() && !is_noisy(report)) {
    Cells times;
    for (const Speedup& speedup : speedups) times.push_back({fmt::format("{:.2f}", speedup.times)});
    table.add("hybrid, times faster", std::move(times));
  }
  return text + "\n" + table.str() + verdict(report, speedups);
}

std::vector<Speedup> hybrid_speedups(const BenchReport& report) {
  std::vector<Speedup> speedups;
  for (const BenchRow& hybrid : report.rows) {
    if (!hybrid.is_hybrid()) continue;
    const BenchRow* best = nullptr;
    for (const BenchRow& peer : report.rows)
      if (peer.is_peer() && peer.bytes == hybrid.bytes &&
          (best == nullptr || peer.timing.median_s < best->timing.median_s))
        best = &peer;
    if (best != nullptr) speedups.push_back({hybrid.bytes, best->timing.median_s / hybrid.timing.median_s});
  }
  return speedups;
}

bool is_noisy(const BenchReport& report) {
  constexpr double kMuch = 0.4;
  size_t compared = 0, scattered = 0;
  for (const BenchRow& row : report.rows) {
    if (!row.is_hybrid() && !row.is_peer()) continue;
    ++compared;
    if (spread_of(row.timing) > kMuch) ++scattered;
  }
  return 4 * scattered > compared;
}

double geometric_mean(const std::vector<Speedup>& speedups) {
  double logarithms = 0;
  for (const Speedup& speedup : speedups) logarithms += std::log(speedup.times);
  return std::exp(logarithms / static_cast<double>(std::max<size_t>(speedups.size(), 1)));
}

std::optional<std::string> first_wrong_result(const BenchReport& report) {
  for (const BenchRow& row : report.rows) {
    const double bound = largest_rounding(row.ranks);
    if (row.max_error <= bound) continue;
    return fmt::format(
        "{} {} of {} over {} ranks is wrong: its largest error is {:.3g} of the magnitudes, rounding "
        "explains {:.3g}",
        row.engine, row.algorithm, print_bytes(row.bytes), row.ranks, row.max_error, bound);
  }
  return std::nullopt;
}

}  // namespace paceline
