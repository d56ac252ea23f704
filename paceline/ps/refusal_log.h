// RefusalLog: strangers that a server turned away, as warnings. However many come, at most kLinesPerSecond are written
// in a second; the next line says how many were left out.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "paceline/core/log.h"

namespace paceline {

class RefusalLog {
 public:
  static constexpr int kLinesPerSecond = 5;

  explicit RefusalLog(Log* log) : log_(log) {}  // nullptr: nobody is told

  void add(const std::string& peer, const std::string& why,
           std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now()) {
    if (log_ == nullptr) return;
    const std::lock_guard lock(mutex_);
    if (now - second_ >= std::chrono::seconds(1)) {
      second_ = now;
      lines_ = 0;
    }
    if (lines_ >= kLinesPerSecond) {
      ++left_out_;
      return;
    }
    ++lines_;
    if (left_out_ > 0) log_->warning("{} more clients were refused", left_out_);
    left_out_ = 0;
    log_->warning("refused {}: {}", peer, why);
  }

 private:
  Log* const log_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point second_{};
  int lines_ = 0;
  int64_t left_out_ = 0;
};

}  // namespace paceline
