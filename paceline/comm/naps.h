// Naps: how a rank waits for a message that only its own looking moves. All the time at first (the clock only now and
// then), then with naps, so that no core is burnt; a large message is looked after for as long as it may take. Whoever
// has waited for long naps for longer: up to 1 ms, a 500th of the wait.
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

namespace paceline {

class Naps {
 public:
  using Clock = std::chrono::steady_clock;

  Naps(size_t bytes, bool crowded)
      : awake_(std::chrono::milliseconds(1) + std::chrono::nanoseconds(4 * bytes)), crowded_(crowded) {}

  // Until the next look. Returns how long the wait has lasted, about. The clock costs as much as a look.
  Clock::duration pause() {
    if (++looks_ == 64) begin_ = Clock::now();
    if (looks_ % 64 == 0) waited_ = Clock::now() - begin_;
    if (waited_ < awake_) {
      if (crowded_) sched_yield();
    } else {
      std::this_thread::sleep_for(nap_);
      waited_ = Clock::now() - begin_;
      nap_ = std::min<Clock::duration>(nap_ * 2, std::clamp<Clock::duration>(waited_ / 500, kShortNap, kLongNap));
    }
    return waited_;
  }

 private:
  static constexpr auto kShortNap = std::chrono::microseconds(200);
  static constexpr auto kLongNap = std::chrono::milliseconds(1);

  Clock::time_point begin_;  // known after the first looks
  Clock::duration awake_;
  bool crowded_;
  Clock::duration waited_{0};
  uint64_t looks_ = 0;
  Clock::duration nap_ = std::chrono::microseconds(20);
};

}  // namespace paceline
