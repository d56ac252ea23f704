// Time in nanoseconds.
#pragma once

#include <chrono>
#include <cstdint>

namespace paceline {

class SteadyClock {
 public:
  int64_t now_ns() const {  // since some fixed moment; never goes back
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

inline double seconds_between(int64_t from_ns, int64_t to_ns) { return static_cast<double>(to_ns - from_ns) * 1e-9; }

}  // namespace paceline
