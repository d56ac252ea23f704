// Small measures: a weighted mean, a smoothed rate, the most memory used.
#pragma once

#include <cstdint>

namespace paceline {

// A batch's loss weighs as many samples as it holds: the mean over an epoch is then the mean over its samples.
class WeightedMean {
 public:
  void add(double value, double weight);
  double mean() const;  // NaN when nothing was added
  double weight() const { return weight_; }
  void reset() { *this = WeightedMean(); }

 private:
  double sum_ = 0;
  double weight_ = 0;
};

// Units per second, where a moment counts less the longer ago it is (by a factor of e every `smoothing_seconds`). Exact
// for a constant rate from the first add() on, however irregular the calls.
class RateMeter {
 public:
  explicit RateMeter(int64_t now_ns, double smoothing_seconds = 3) : last_ns_(now_ns), smoothing_(smoothing_seconds) {}

  void add(double units, int64_t now_ns);              // done since the last call
  void skip_to(int64_t now_ns) { last_ns_ = now_ns; }  // the time since the last call was a pause and does not count
  double per_second() const { return seconds_ > 0 ? units_ / seconds_ : 0; }

 private:
  int64_t last_ns_;
  double smoothing_;
  double units_ = 0;  // both fade with age
  double seconds_ = 0;
};

int64_t peak_rss_bytes();  // the most memory this process has had resident so far

}  // namespace paceline
