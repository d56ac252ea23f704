#include "paceline/comm/flight_recorder.h"

#include <algorithm>
#include <chrono>
#include <optional>

namespace paceline {
namespace {

// A slot's stamp says whose it is and how far: (ticket + 1) * 4 + phase. The phases after `writing` are
// FlightRecord::State's.
constexpr uint64_t kUnused = 0;
constexpr uint64_t kWriting = 0;
constexpr uint64_t kPhases = 4;
constexpr int kTries = 1000;  // a writer takes some nanoseconds, unless it was interrupted in the middle

uint64_t stamp(uint64_t ticket, uint64_t phase) { return (ticket + 1) * kPhases + phase; }
uint64_t stamp(uint64_t ticket, FlightRecord::State state) { return stamp(ticket, static_cast<uint64_t>(state) + 1); }
bool readable(uint64_t stamp) { return stamp % kPhases != kWriting; }

template <class Clock>
int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

}  // namespace

struct alignas(64) FlightRecorder::Slot {
  std::atomic<uint64_t> stamp{0};
  std::atomic<uint64_t> group{0};
  std::atomic<uint64_t> what{0};  // of OperationWords
  std::atomic<uint64_t> count{0};
  std::atomic<uint64_t> sequence{0};
  std::atomic<int64_t> begin_ns{0};
  std::atomic<int64_t> end_ns{0};

  std::optional<FlightRecord> read() const;  // nothing: never used, or being written

  FlightRecord load(uint64_t from_stamp) const;
};

FlightRecord FlightRecorder::Slot::load(uint64_t from_stamp) const {
  FlightRecord record;
  record.number = from_stamp / kPhases - 1;
  record.state = static_cast<FlightRecord::State>(from_stamp % kPhases - 1);
  record.group = static_cast<uint32_t>(group.load(std::memory_order_acquire));
  record.operation = from_words({what.load(std::memory_order_acquire), count.load(std::memory_order_acquire),
                                 sequence.load(std::memory_order_acquire)});
  record.begin_ns = begin_ns.load(std::memory_order_acquire);
  record.end_ns = end_ns.load(std::memory_order_acquire);
  return record;
}

// Words are stored with release and loaded with acquire: a reader that meets a word of the next writer also meets that
// writer's claim in the stamp.
std::optional<FlightRecord> FlightRecorder::Slot::read() const {
  for (int tries = 0; tries < kTries; ++tries) {
    const uint64_t before = stamp.load(std::memory_order_acquire);
    if (before == kUnused) return {};
    if (!readable(before)) continue;
    const FlightRecord record = load(before);
    if (stamp.load(std::memory_order_relaxed) == before) return record;
  }
  return {};
}

FlightRecorder::FlightRecorder() : slots_(std::make_unique<Slot[]>(kRecords)) {}
FlightRecorder::~FlightRecorder() = default;

uint32_t FlightRecorder::add_group(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(groups_, name);
  const auto index = static_cast<uint32_t>(found - groups_.begin());
  if (found == groups_.end()) groups_.push_back(name);
  return index;
}

std::vector<std::string> FlightRecorder::groups() const {
  const std::lock_guard lock(mutex_);
  return groups_;
}

// A slot that somebody else is writing at this moment (some hundred operations later or earlier) is left to him: the
// record is lost, nobody waits.
uint64_t FlightRecorder::begin(uint32_t group, const Operation& operation, int64_t now_ns) {
  const uint64_t ticket = next_.fetch_add(1, std::memory_order_relaxed);
  Slot& slot = slots_[ticket % kRecords];
  uint64_t found = slot.stamp.load(std::memory_order_relaxed);
  if ((found != kUnused && !readable(found)) ||
      !slot.stamp.compare_exchange_strong(found, stamp(ticket, kWriting), std::memory_order_acq_rel))
    return ticket;
  const OperationWords words = to_words(operation);
  slot.group.store(group, std::memory_order_release);
  slot.what.store(words.what, std::memory_order_release);
  slot.count.store(words.count, std::memory_order_release);
  slot.sequence.store(words.sequence, std::memory_order_release);
  slot.begin_ns.store(now_ns, std::memory_order_release);
  slot.end_ns.store(0, std::memory_order_release);
  slot.stamp.store(stamp(ticket, FlightRecord::State::under_way), std::memory_order_release);
  return ticket;
}

void FlightRecorder::end(uint64_t ticket, FlightRecord::State state, int64_t now_ns) {
  Slot& slot = slots_[ticket % kRecords];
  uint64_t mine = stamp(ticket, FlightRecord::State::under_way);
  if (!slot.stamp.compare_exchange_strong(mine, stamp(ticket, kWriting), std::memory_order_acq_rel)) return;
  slot.end_ns.store(now_ns, std::memory_order_release);
  slot.stamp.store(stamp(ticket, state), std::memory_order_release);
}

std::vector<FlightRecord> FlightRecorder::records() const {
  const int64_t wall_ns = now_ns<std::chrono::system_clock>() - now_ns<std::chrono::steady_clock>();
  std::vector<FlightRecord> records;
  for (size_t index = 0; index < kRecords; ++index) {
    std::optional<FlightRecord> record = slots_[index].read();
    if (!record) continue;
    record->begin_ns += wall_ns;
    if (record->end_ns != 0) record->end_ns += wall_ns;
    records.push_back(*record);
  }
  std::ranges::sort(records, {}, &FlightRecord::number);
  return records;
}

}  // namespace paceline
