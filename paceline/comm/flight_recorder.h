// FlightRecorder: the last operations of this process's groups, for the file that is written when something fails
// (flight_log.h).
//
// Each group has a lane of its own, which one thread at a time writes: begin() and end() are a dozen plain stores,
// allocate nothing and never wait. Lanes may be read at any time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "paceline/comm/operation.h"

namespace paceline {

struct FlightRecord {
  enum class State : uint8_t { under_way, done, failed };
  uint32_t group = 0;  // an index into FlightRecorder::groups()
  State state = State::under_way;
  Operation operation;
  int64_t begin_ns = 0;  // wall clock, so that several ranks' files can be laid side by side
  int64_t end_ns = 0;    // 0 while under way, and where a small operation's end was not timed

  bool timed() const { return end_ns != 0; }

  bool operator==(const FlightRecord&) const = default;
};

class FlightLane {
 public:
  static constexpr size_t kRecords = 128;  // stay in the first-level cache

  explicit FlightLane(uint32_t group) : group_(group) {}
  uint32_t group() const { return group_; }

  // Times are of the steady clock: callers have read it anyway. An operation ends before the next one begins.
  void begin(const Operation& operation, int64_t now_ns) {
    Slot& slot = slots_[begun_++ % kRecords];
    const OperationWords words = to_words(operation);
    slot.stamp.store(0, std::memory_order_relaxed);
    slot.what.store(words.what, std::memory_order_release);
    slot.count.store(words.count, std::memory_order_release);
    slot.sequence.store(words.sequence, std::memory_order_release);
    slot.begin_ns.store(now_ns, std::memory_order_release);
    slot.end_ns.store(0, std::memory_order_release);
    slot.stamp.store(begun_, std::memory_order_release);
  }
  void end(FlightRecord::State state, int64_t now_ns) {
    const bool failed = state == FlightRecord::State::failed;
    slots_[(begun_ - 1) % kRecords].end_ns.store(failed ? -now_ns : now_ns, std::memory_order_release);
  }
  void end_untimed() { slots_[(begun_ - 1) % kRecords].end_ns.store(kUntimed, std::memory_order_release); }

  void read(std::vector<FlightRecord>& records) const;  // appends them, in no order, with the steady clock's times

 private:
  struct alignas(64) Slot {
    std::atomic<uint64_t> stamp{0};  // the number of the operation, from 1; 0: never used, or being written
    std::atomic<uint64_t> what{0};   // of OperationWords
    std::atomic<uint64_t> count{0};
    std::atomic<uint64_t> sequence{0};
    std::atomic<int64_t> begin_ns{0};
    std::atomic<int64_t> end_ns{0};  // negative: it failed then
  };
  static constexpr int64_t kUntimed = INT64_MAX;  // in end_ns: it was done, at a time that nobody noted
  static std::optional<FlightRecord> read(const Slot& slot);

  uint32_t group_;
  uint64_t begun_ = 0;
  std::array<Slot, kRecords> slots_;
};

class FlightRecorder {
 public:
  // Groups of one name, one after the other, write the same lane.
  std::shared_ptr<FlightLane> add_group(const std::string& name);

  std::vector<std::string> groups() const;
  std::vector<FlightRecord> records() const;  // by their beginning; may be called while others write

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> groups_;
  std::vector<std::shared_ptr<FlightLane>> lanes_;
};

}  // namespace paceline
