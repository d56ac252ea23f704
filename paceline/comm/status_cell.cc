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

// The words are stored with release, though only the version publishes them: a reader that meets a word of the reading
// after next then also meets the version before it, and knows that it was overtaken.
void StatusCell::begin(const Operation& operation, int64_t now_ns) {
  const uint64_t version = version_.load(std::memory_order_relaxed) + 1;
  const OperationWords words = to_words(operation);
  Entry& entry = entries_[version % 2];
  entry.since.store(2 * now_ns + 1, std::memory_order_release);
  entry.what.store(words.what, std::memory_order_release);
  entry.count.store(words.count, std::memory_order_release);
  entry.sequence.store(words.sequence, std::memory_order_release);
  version_.store(version, std::memory_order_release);
}

void StatusCell::end(int64_t now_ns) {
  entries_[version_.load(std::memory_order_relaxed) % 2].since.store(2 * now_ns, std::memory_order_release);
}

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
  return reading;
}

}  // namespace paceline
