// Monitor: what a process's groups share to be watched: recorder, alarm, time-out, and the status of each group.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "paceline/comm/alarm.h"
#include "paceline/comm/diagnosis.h"
#include "paceline/comm/flight_recorder.h"
#include "paceline/comm/status_cell.h"

namespace paceline {

struct WatchedGroup {
  std::string name;  // the same on every rank of the group
  std::vector<int> world_ranks;
  int rank = 0;  // this process's, within the group
  StatusCell* status = nullptr;
};

class Monitor {
 public:
  explicit Monitor(int64_t timeout_ms) : timeout_ms_(timeout_ms) {}

  FlightRecorder& recorder() { return recorder_; }
  Alarm& alarm() { return alarm_; }
  int64_t timeout_ms() const { return timeout_ms_; }

  // ---- what this process shows of itself in every group ----
  // The watchdog calls this as long as the process runs: ranks that share memory see from it that it is not stopped.
  void beat();
  // AtWork calls these. Chores may be nested: the outermost is shown.
  void begin_chore(Chore chore);
  void end_chore();
  // This process waits for a rank at work; ranks that wait for this one are told so.
  void excuse(const Excuse& excuse);
  // Whether a wait must end: it has lasted longer than the time-out, and so has the time since the last chore.
  bool out_of_patience(int64_t waited_ms) const;
  StatusCell::Life life() const;

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
  void show_life();  // REQUIRES: mutex_ is held

  mutable std::mutex mutex_;
  std::vector<WatchedGroup> groups_;
  StatusCell::Life life_;
  int chores_ = 0;
};

// While it lives, ranks that wait for this one know that it is at work, and wait longer than their time-out:
//
//   const AtWork at_work(group.monitor(), Chore::checkpoint);
//
// A rank that dies or is stopped meanwhile is still found in the ordinary time.
class AtWork {
 public:
  AtWork(Monitor& monitor, Chore chore) : monitor_(monitor) { monitor_.begin_chore(chore); }
  ~AtWork() { monitor_.end_chore(); }
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;

 private:
  Monitor& monitor_;
};

}  // namespace paceline
