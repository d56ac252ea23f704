// Alarm: how a failure reaches every wait of this process. Raised once, by the rank that found the failure or by the
// watchdog that heard of it; waits look at raised() and throw what it says.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <mutex>
#include <string>

namespace paceline {

class Alarm {
 public:
  bool raised() const { return raised_.load(std::memory_order_acquire); }

  // Only the first text counts. Calls every listener, on this thread.
  void raise(const std::string& text);

  // REQUIRES: raised()
  std::string text() const;
  [[noreturn]] void fail() const;  // throws PeerError(text())

  // Called when the alarm is raised, or at once if it has been: an engine that sleeps where it cannot look wakes up.
  // `wake` must not throw, nor make or end a Listener; it may call raised(), text() and raise().
  // Held while it lives: its destructor waits for a call under way.
  class Listener {
   public:
    Listener(Alarm& alarm, std::function<void()> wake);
    ~Listener();
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

   private:
    Alarm& alarm_;
    std::list<std::function<void()>>::iterator place_;
  };

 private:
  std::atomic<bool> raised_{false};
  mutable std::mutex mutex_;
  std::string text_;
  std::list<std::function<void()>> listeners_;
};

}  // namespace paceline
