// FlightRecorder: the last operations of this process, kept in a ring, for the file that is written when something
// fails (flight_log.h).
//
// begin() and end() together take some twenty nanoseconds, allocate nothing, and may be called by several threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "paceline/comm/operation.h"

namespace paceline {

struct FlightRecord {
  enum class State : uint8_t { under_way, done, failed };
  uint64_t number = 0;  // counts the operations of the process, from 0
  uint32_t group = 0;   // an index into FlightRecorder::groups()
  State state = State::under_way;
  Operation operation;
  int64_t begin_ns = 0;  // wall clock, so that several ranks' files can be laid side by side
  int64_t end_ns = 0;    // 0 while under way

  bool operator==(const FlightRecord&) const = default;
};

class FlightRecorder {
 public:
  static constexpr size_t kRecords = 256;  // stay in the first-level cache

  FlightRecorder();
  ~FlightRecorder();

  uint32_t add_group(const std::string& name);  // returns its index; the same for the same name

  // Returns the ticket for end(). Times are of the steady clock: callers have read it anyway.
  uint64_t begin(uint32_t group, const Operation& operation, int64_t now_ns);
  void end(uint64_t ticket, FlightRecord::State state, int64_t now_ns);

  std::vector<std::string> groups() const;
  std::vector<FlightRecord> records() const;  // oldest first; may be called while others write

 private:
  struct Slot;
  std::unique_ptr<Slot[]> slots_;
  std::atomic<uint64_t> next_{0};
  mutable std::mutex mutex_;
  std::vector<std::string> groups_;
};

}  // namespace paceline
