// StatusCell: what a rank is doing in one group, for others to read at any time: other processes through shared memory,
// or the watchdog's thread. Written by one thread, without locks; begin() and end() together take some nanoseconds.
//
// Beside it stands what the whole process shows of itself (Life): Monitor writes it, in one thread at a time.
//
// Zeroed memory is a cell that has done nothing. A writer that died or sleeps in the middle of a call leaves the
// reading from before it.
#pragma once

#include <atomic>

#include "paceline/comm/chore.h"
#include "paceline/comm/operation.h"

namespace paceline {

struct alignas(64) StatusCell {
  // Steady clock, in nanoseconds; 0: never.
  struct Life {
    int64_t beat_ns = 0;          // when the process's watchdog was last awake; it is not while the process is stopped
    int64_t chore_since_ns = 0;   // of `chore`
    int64_t worked_until_ns = 0;  // when the last chore ended, of this rank or of one that it waited for
    Chore chore = Chore::none;
  };

  struct Reading {
    bool busy = false;  // in `operation`; otherwise it was the last one (Verb::none: there was none)
    Operation operation;
    // Steady clock, the same for all processes of a host. After an untimed end: since the operation's beginning.
    int64_t since_ns = 0;
    Life life;
  };

  // The words are stored with release, though only the version publishes them: a reader that meets a word of the
  // reading after next then also meets the version before it, and knows that it was overtaken.
  void begin(const Operation& operation, int64_t now_ns) {
    const uint64_t version = version_.load(std::memory_order_relaxed) + 1;
    const OperationWords words = to_words(operation);
    Entry& entry = entries_[version % 2];
    entry.since.store(2 * now_ns + 1, std::memory_order_release);
    entry.what.store(words.what, std::memory_order_release);
    entry.count.store(words.count, std::memory_order_release);
    entry.sequence.store(words.sequence, std::memory_order_release);
    version_.store(version, std::memory_order_release);
  }
  void end(int64_t now_ns) {
    entries_[version_.load(std::memory_order_relaxed) % 2].since.store(2 * now_ns, std::memory_order_release);
  }
  // Of a small operation, where a look at the clock would be felt: it ended, nobody knows when.
  void end_untimed() {
    std::atomic<int64_t>& since = entries_[version_.load(std::memory_order_relaxed) % 2].since;
    since.store(since.load(std::memory_order_relaxed) & ~int64_t{1}, std::memory_order_release);
  }
  void show(const Life& life) {
    beat_.store(life.beat_ns, std::memory_order_relaxed);
    worked_until_.store(life.worked_until_ns, std::memory_order_relaxed);
    chore_.store(life.chore_since_ns * 8 + static_cast<int64_t>(life.chore), std::memory_order_release);
  }
  Reading read() const;  // consistent: tries again when the writer overtook it

 private:
  struct Entry {
    std::atomic<int64_t> since{0};  // nanoseconds, doubled; plus 1 while busy
    std::atomic<uint64_t> what{0};  // of OperationWords
    std::atomic<uint64_t> count{0};
    std::atomic<uint64_t> sequence{0};
  };
  static void load(const Entry& entry, Reading& reading);

  std::atomic<uint64_t> version_{0};  // entries_[version_ % 2] counts; the other one is written next
  Entry entries_[2];
  std::atomic<int64_t> beat_{0};
  std::atomic<int64_t> worked_until_{0};
  std::atomic<int64_t> chore_{0};  // since when, times 8, plus the Chore
};

}  // namespace paceline
