// Monitor: what a process's groups share to be watched: recorder, alarm, time-out, and the status of each group.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "paceline/comm/alarm.h"
#include "paceline/comm/flight_recorder.h"
#include "paceline/comm/status_cell.h"

namespace paceline {

struct WatchedGroup {
  std::string name;  // the same on every rank of the group
  std::vector<int> world_ranks;
  int rank = 0;  // this process's, within the group
  const StatusCell* status = nullptr;
};

class Monitor {
 public:
  explicit Monitor(int64_t timeout_ms) : timeout_ms_(timeout_ms) {}

  FlightRecorder& recorder() { return recorder_; }
  Alarm& alarm() { return alarm_; }
  int64_t timeout_ms() const { return timeout_ms_; }

  // The first failure of an operation, or of the process, is reported: people are told, the flight record is written.
  // Returns whether this was it.
  void on_failure(std::function<void(const std::string& text)> report) { report_ = std::move(report); }
  bool report_failure(const std::string& text);

  void add(const WatchedGroup& group);
  void remove(const StatusCell* status);
  void each_group(const std::function<void(const WatchedGroup&)>& visit) const;

 private:
  int64_t timeout_ms_;
  FlightRecorder recorder_;
  Alarm alarm_;
  std::function<void(const std::string& text)> report_;
  std::atomic<bool> reported_{false};
  mutable std::mutex mutex_;
  std::vector<WatchedGroup> groups_;
};

}  // namespace paceline
