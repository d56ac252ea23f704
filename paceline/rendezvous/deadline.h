// Deadline: a moment by which something must have happened, as what is left of it for poll().
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace paceline {

class Deadline {
 public:
  explicit Deadline(int64_t in_ms) : at_(std::chrono::steady_clock::now() + std::chrono::milliseconds(in_ms)) {}

  Deadline or_in(int64_t ms) const {  // whichever is sooner
    Deadline sooner(ms);
    sooner.at_ = std::min(sooner.at_, at_);
    return sooner;
  }

  bool passed() const { return std::chrono::steady_clock::now() >= at_; }

  // Rounded up, so that it has passed when poll() has waited this long; at most an hour.
  int poll_ms() const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(at_ - std::chrono::steady_clock::now());
    return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 3'600'000));
  }

 private:
  std::chrono::steady_clock::time_point at_;
};

}  // namespace paceline
