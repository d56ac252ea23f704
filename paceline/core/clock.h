// Time in nanoseconds. ManualClock stands still until a test moves it.
#pragma once

#include <chrono>
#include <cstdint>

namespace paceline {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t now_ns() const = 0;  // since some fixed moment; never goes back
};

class SteadyClock : public Clock {
 public:
  int64_t now_ns() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

class ManualClock : public Clock {
 public:
  int64_t now_ns() const override { return now_ns_; }
  void advance_ns(int64_t by_ns) { now_ns_ += by_ns; }

 private:
  int64_t now_ns_ = 0;
};

inline double seconds_between(int64_t from_ns, int64_t to_ns) { return static_cast<double>(to_ns - from_ns) * 1e-9; }

}  // namespace paceline
