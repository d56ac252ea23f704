// Ctrl-C as a request: the first one asks the run to stop after its step, the second ends the process at once.
#pragma once

#include <csignal>
#include <functional>
#include <stop_token>
#include <thread>

namespace paceline {

// Takes SIGINT, SIGTERM, SIGHUP and SIGUSR1 (what mpirun passes on) while it lives, but for those that the process was
// started to ignore (nohup: SIGHUP). Make it before any other thread: threads inherit that the signals are blocked. The
// callback runs on a thread of this object, where anything may be called.
class Interrupt {
 public:
  explicit Interrupt(std::function<void()> on_first);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  std::stop_token token() const { return stop_.get_token(); }

 private:
  void watch();

  std::function<void()> on_first_;
  std::stop_source stop_;
  const sigset_t taken_;
  int signals_;   // a signalfd
  int finished_;  // an eventfd: the destructor was called
  std::thread watcher_;
};

}  // namespace paceline
