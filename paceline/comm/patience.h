// Patience: how a rank waits for another. Spins while every rank has a core, then lets others run, then sleeps.
//
// How long it spins follows what spinning achieved: a core that somebody else wants is given up sooner.
//
// On a machine of 2 cores, 4 ranks and 1 KB, an all-reduce takes 52-70 us when ranks sleep at once and 17-33 us when
// they yield first; a rank that waits for long costs no core.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "paceline/core/clock.h"

namespace paceline {

// Where a rank sleeps, for others to wake it: in memory that all of them see. Zero bytes are a valid one.
struct alignas(64) Bed {
  std::atomic<uint32_t> asleep{0};
  std::atomic<uint32_t> bell{0};

  // Call after the change that the sleeper may be waiting for was stored with seq_cst: then either it saw the change,
  // or this sees it asleep.
  void wake_if_asleep() {
    if (asleep.load(std::memory_order_seq_cst) != 0) wake();
  }
  void wake();
};

class Patience {
 public:
  // `ranks` that wait on this host.
  explicit Patience(int ranks);

  // Returns true when ready() is true. `hopeless(waited_ns)` is called about every 50 ms of sleep: when it says so, and
  // what was waited for has not come in the meantime, this returns false. It may throw.
  template <class Ready, class Hopeless>
  bool wait_until(Bed& bed, const Ready& ready, const Hopeless& hopeless) const {
    for (int i = 0; i < spins_; ++i) {
      if (ready()) {
        if (i > 0) spins_ = std::min(2 * spins_, most_spins_);
        return true;
      }
      pause();
    }
    if (ready()) return true;
    spins_ = std::min(most_spins_, std::max(spins_ / 2, kFewestSpins));  // the other may want this very core
    const int64_t begin_ns = now_ns();
    do {
      for (int i = 0; i < 8; ++i) {
        yield();
        if (ready()) return true;
      }
    } while (now_ns() - begin_ns < kYieldNs);
    for (;;) {
      const uint32_t bell = bed.bell.load(std::memory_order_seq_cst);
      bed.asleep.store(1, std::memory_order_seq_cst);
      // ready() loads with acquire, which may move before a seq_cst store (it does on ARM): the other end could then
      // see nobody asleep, and this one nothing new.
      std::atomic_thread_fence(std::memory_order_seq_cst);
      const bool came = ready();
      if (!came) sleep(bed, bell);
      bed.asleep.store(0, std::memory_order_relaxed);
      if (came || ready()) return true;
      // Looked at again afterwards: who left may have sent its last message just before.
      if (hopeless(now_ns() - begin_ns)) return ready();
    }
  }

 private:
  static constexpr int64_t kYieldNs = 1'000'000;
  static constexpr int kFewestSpins = 16;  // half a microsecond

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  static void yield();
  static void sleep(Bed& bed, uint32_t bell);  // until the bell rings, at most 50 ms
  static int64_t now_ns() { return SteadyClock().now_ns(); }

  int most_spins_;     // some ten microseconds; 0 when there are more ranks than cores
  mutable int spins_;  // now
};

}  // namespace paceline
