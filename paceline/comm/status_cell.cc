#include "paceline/comm/status_cell.h"

#include <type_traits>

namespace paceline {
namespace {

// A reader is overtaken only when two operations begin or end within its dozen loads. That a writer does so a hundred
// times in a row does not happen; should it, a mixture of two readings is better than a watchdog that hangs.
constexpr int kTries = 100;

static_assert(sizeof(StatusCell) == 128 && std::is_standard_layout_v<StatusCell>);
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);

}  // namespace

void StatusCell::load(const Entry& entry, Reading& reading) {
  const int64_t since = entry.since.load(std::memory_order_acquire);
  reading.busy = since % 2 != 0;
  reading.since_ns = since / 2;
  reading.operation =
      from_words({entry.what.load(std::memory_order_acquire), entry.count.load(std::memory_order_acquire),
                  entry.sequence.load(std::memory_order_acquire)});
}

StatusCell::Reading StatusCell::read() const {
  Reading reading;
  for (int tries = 0; tries < kTries; ++tries) {
    const uint64_t version = version_.load(std::memory_order_acquire);
    load(entries_[version % 2], reading);
    if (version_.load(std::memory_order_relaxed) == version) break;
  }
  const int64_t chore = chore_.load(std::memory_order_acquire);
  reading.life = {.beat_ns = beat_.load(std::memory_order_relaxed),
                  .chore_since_ns = chore / 8,
                  .worked_until_ns = worked_until_.load(std::memory_order_relaxed),
                  .chore = static_cast<Chore>(chore % 8)};
  return reading;
}

}  // namespace paceline
