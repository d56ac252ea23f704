#include "paceline/comm/flight_recorder.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <tuple>

namespace paceline {
namespace {

constexpr int kTries = 1000;  // a writer takes some nanoseconds, unless it was interrupted in the middle

template <class Clock>
int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

}  // namespace

// Words are stored with release and loaded with acquire: a reader that meets a word of the next operation also meets
// its zero in the stamp.
std::optional<FlightRecord> FlightLane::read(const Slot& slot) {
  for (int tries = 0; tries < kTries; ++tries) {
    const uint64_t before = slot.stamp.load(std::memory_order_acquire);
    if (before == 0) continue;
    FlightRecord record;
    record.operation =
        from_words({slot.what.load(std::memory_order_acquire), slot.count.load(std::memory_order_acquire),
                    slot.sequence.load(std::memory_order_acquire)});
    record.begin_ns = slot.begin_ns.load(std::memory_order_acquire);
    const int64_t end_ns = slot.end_ns.load(std::memory_order_acquire);
    if (slot.stamp.load(std::memory_order_relaxed) != before) continue;
    if (end_ns != 0) record.state = end_ns < 0 ? FlightRecord::State::failed : FlightRecord::State::done;
    record.end_ns = end_ns == kUntimed ? 0 : std::abs(end_ns);
    return record;
  }
  return {};
}

void FlightLane::read(std::vector<FlightRecord>& records) const {
  for (const Slot& slot : slots_) {
    if (slot.stamp.load(std::memory_order_relaxed) == 0 && slot.what.load(std::memory_order_relaxed) == 0) return;
    if (std::optional<FlightRecord> record = read(slot)) {
      record->group = group_;
      records.push_back(*record);
    }
  }
}

std::shared_ptr<FlightLane> FlightRecorder::add_group(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(groups_, name);
  const auto index = static_cast<uint32_t>(found - groups_.begin());
  if (found == groups_.end()) groups_.push_back(name);
  for (const auto& lane : lanes_)
    if (lane->group() == index && lane.use_count() == 1) return lane;  // nobody but us holds it
  lanes_.push_back(std::make_shared<FlightLane>(index));
  return lanes_.back();
}

std::vector<std::string> FlightRecorder::groups() const {
  const std::lock_guard lock(mutex_);
  return groups_;
}

std::vector<FlightRecord> FlightRecorder::records() const {
  const int64_t wall_ns = now_ns<std::chrono::system_clock>() - now_ns<std::chrono::steady_clock>();
  std::vector<FlightRecord> records;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& lane : lanes_) lane->read(records);
  }
  for (FlightRecord& record : records) {
    record.begin_ns += wall_ns;
    if (record.timed()) record.end_ns += wall_ns;
  }
  std::ranges::stable_sort(records, [](const FlightRecord& one, const FlightRecord& other) {
    return std::tie(one.begin_ns, one.group, one.operation.sequence) <
           std::tie(other.begin_ns, other.group, other.operation.sequence);
  });
  return records;
}

}  // namespace paceline
