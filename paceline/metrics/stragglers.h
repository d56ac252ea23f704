// StragglerWatch: notices a rank that computes slower than the others, for whom all of them then wait in every step.
// Bookkeeping only: no clock, no I/O.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace paceline {

class StragglerWatch {
 public:
  static constexpr double kSlowFactor = 1.25;  // times the median of the others
  static constexpr int kWindows = 3;           // in a row: one slow window is nothing to tell people about

  // Both of the ranks, if known. `slowdowns`: how many times as long a rank takes because the recipe wants it so.
  explicit StragglerWatch(std::vector<std::string> hosts = {}, std::vector<double> slowdowns = {})
      : hosts_(std::move(hosts)), slowdowns_(std::move(slowdowns)) {}

  // Once per window, with each rank's computing time per step. Returns a sentence about a rank that has been slow for
  // kWindows: once, until it has been as fast as the others for as many. Of several such ranks the slowest; the next
  // one in the next window. A window with a time that is not a finite number says nothing. Another number of ranks
  // starts anew.
  std::optional<std::string> observe(std::span<const double> compute_seconds_per_rank);

 private:
  struct Record {
    int slow_windows = 0;  // in a row, up to now
    double own_s = 0;      // summed over them
    double others_s = 0;   // the medians of the others, summed over them
    int good_windows = 0;  // in a row, since it was told
    bool told = false;

    double factor() const { return own_s / others_s; }
  };

  void note(Record& record, double own_s, double others_s) const;
  std::string sentence(size_t rank) const;

  std::vector<std::string> hosts_;
  std::vector<double> slowdowns_;
  std::vector<Record> records_;  // per rank
};

}  // namespace paceline
