#include "paceline/metrics/meters.h"

#include <sys/resource.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

namespace paceline {

void WeightedMean::add(double value, double weight) {
  sum_ += value * weight;
  weight_ += weight;
}

double WeightedMean::mean() const { return weight_ > 0 ? sum_ / weight_ : std::numeric_limits<double>::quiet_NaN(); }

void RateMeter::add(double units, int64_t now_ns) {
  const double passed = static_cast<double>(now_ns - last_ns_) * 1e-9;
  last_ns_ = now_ns;
  if (!(passed > 0)) {  // the clock stood still: the units count, at full weight
    units_ += units;
    return;
  }
  // The units came evenly over the time that passed, so they have faded as that time has.
  const double kept = std::exp(-passed / smoothing_);
  const double faded_seconds = smoothing_ * -std::expm1(-passed / smoothing_);
  units_ = units_ * kept + units * (faded_seconds / passed);
  seconds_ = seconds_ * kept + faded_seconds;
}

// Not getrusage() alone: its maximum outlives exec(), and is that of whatever started this program if that was larger.
int64_t peak_rss_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    constexpr std::string_view kPeak = "VmHWM:";
    if (line.starts_with(kPeak)) return std::strtoll(line.c_str() + kPeak.size(), nullptr, 10) * 1024;  // "  512 kB"
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;  // Linux counts in KiB
}

}  // namespace paceline
