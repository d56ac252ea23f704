#include "paceline/cli/interrupt.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "paceline/core/check.h"
#include "paceline/core/process_start.h"

namespace paceline {
namespace {

sigset_t taken_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) sigaddset(&signals, signal);
  return without_ignored(signals);
}

}  // namespace

Interrupt::Interrupt(std::function<void()> on_first) : on_first_(std::move(on_first)), taken_(taken_signals()) {
  CHECK_EQ(pthread_sigmask(SIG_BLOCK, &taken_, nullptr), 0);
  signals_ = signalfd(-1, &taken_, SFD_CLOEXEC);
  finished_ = eventfd(0, EFD_CLOEXEC);
  CHECK_GE(signals_, 0);
  CHECK_GE(finished_, 0);
  watcher_ = std::thread([this] { watch(); });
}

Interrupt::~Interrupt() {
  const uint64_t one = 1;
  CHECK_EQ(::write(finished_, &one, sizeof one), static_cast<ssize_t>(sizeof one));
  watcher_.join();
  ::close(signals_);
  ::close(finished_);
  pthread_sigmask(SIG_UNBLOCK, &taken_, nullptr);
}

void Interrupt::watch() {
  for (;;) {
    pollfd events[] = {{signals_, POLLIN, 0}, {finished_, POLLIN, 0}};
    if (::poll(events, 2, -1) < 0) continue;
    if (events[1].revents != 0) return;
    signalfd_siginfo signal;
    if (::read(signals_, &signal, sizeof signal) != static_cast<ssize_t>(sizeof signal)) continue;
    if (stop_.stop_requested()) ::_exit(static_cast<int>(ExitCode::interrupted));
    stop_.request_stop();
    on_first_();
  }
}

}  // namespace paceline
