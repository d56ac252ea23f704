#include "paceline/metrics/stragglers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace paceline {
namespace {

// The median of a sorted list without the element at `left_out`. REQUIRES: two elements or more
double median_without(const std::vector<double>& sorted, size_t left_out) {
  const auto other = [&](size_t index) { return sorted[index < left_out ? index : index + 1]; };
  const size_t others = sorted.size() - 1;
  return (other((others - 1) / 2) + other(others / 2)) / 2;
}

}  // namespace

std::optional<std::string> StragglerWatch::observe(std::span<const double> compute_seconds_per_rank) {
  const size_t ranks = compute_seconds_per_rank.size();
  if (ranks != records_.size()) records_.assign(ranks, {});
  const auto finite = [](double seconds) { return std::isfinite(seconds); };
  if (ranks < 2 || !std::ranges::all_of(compute_seconds_per_rank, finite)) return std::nullopt;

  std::vector<double> sorted(compute_seconds_per_rank.begin(), compute_seconds_per_rank.end());
  std::ranges::sort(sorted);
  for (size_t rank = 0; rank < ranks; ++rank) {
    const double own_s = compute_seconds_per_rank[rank];
    const auto place = std::ranges::lower_bound(sorted, own_s) - sorted.begin();
    note(records_[rank], own_s, median_without(sorted, static_cast<size_t>(place)));
  }

  Record* slowest = nullptr;
  for (Record& record : records_) {
    if (record.told || record.slow_windows < kWindows) continue;
    if (slowest == nullptr || record.factor() > slowest->factor()) slowest = &record;
  }
  if (slowest == nullptr) return std::nullopt;
  slowest->told = true;
  return sentence(static_cast<size_t>(slowest - records_.data()));
}

void StragglerWatch::note(Record& record, double own_s, double others_s) const {
  if (others_s > 0 && own_s > kSlowFactor * others_s) {
    ++record.slow_windows;
    record.own_s += own_s;
    record.others_s += others_s;
    record.good_windows = 0;
    return;
  }
  const int good_windows = record.good_windows + 1;
  if (record.told && good_windows < kWindows) {
    record = {.good_windows = good_windows, .told = true};
  } else {
    record = {};
  }
}

std::string StragglerWatch::sentence(size_t rank) const {
  const Record& record = records_[rank];
  const std::string host = rank < hosts_.size() && !hosts_[rank].empty() ? fmt::format(" ({})", hosts_[rank]) : "";
  const std::string what =
      fmt::format("rank {}{} computes {:.1f} times as long as the others in the last {} windows, and they wait for it",
                  rank, host, record.factor(), record.slow_windows);
  if (rank < slowdowns_.size() && slowdowns_[rank] > 1) return what + ", as sync.slowdown asks";
  return what +
         ": look there for other programs that use its processors, for fewer threads than the others have "
         "(train.threads, "
         "core bindings) and for a processor that is slower or throttled";
}

}  // namespace paceline
