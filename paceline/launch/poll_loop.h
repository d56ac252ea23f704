// PollLoop: one thread that waits for descriptors and for moments, and calls back. Not thread-safe; one poll() per
// turn, so good for hundreds of descriptors, not for thousands.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace paceline {

class PollLoop {
 public:
  using Handler = std::function<void()>;
  using TimerId = uint64_t;

  // Calls `ready` in each turn that finds one of `events` (POLLIN, POLLOUT) or an end or error at the descriptor.
  // Sometimes it is called for nothing: it must not wait.
  void watch(int descriptor, short events, Handler ready);
  void pause(int descriptor, bool paused);  // not called while paused, not even at its end
  void forget(int descriptor);              // before it is closed; fine if it is not watched

  TimerId after(int64_t delay_ms, Handler due);  // once
  void cancel(TimerId timer);                    // fine if it was called already

  // Waits for the first thing to happen and handles all that has happened. A handler may watch, forget, and throw.
  void turn();

 private:
  struct Watch {
    short events;
    bool paused;
    Handler ready;
  };
  struct Timer {
    int64_t due_ns;
    Handler due;
  };

  std::vector<int> wait() const;           // the descriptors at which something happened
  int milliseconds_to_next_timer() const;  // -1: there is none
  void call_due_timers();

  std::map<int, Watch> watches_;
  std::map<TimerId, Timer> timers_;
  TimerId next_timer_ = 1;
};

}  // namespace paceline
