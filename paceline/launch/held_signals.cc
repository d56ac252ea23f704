#include "paceline/launch/held_signals.h"

#include <sys/signalfd.h>

#include <ctime>

#include "paceline/core/check.h"
#include "paceline/core/process_start.h"
#include "paceline/launch/child_process.h"

namespace paceline {

HeldSignals::HeldSignals() : blocked_(without_ignored(ending_signals())) {
  CHECK_EQ(pthread_sigmask(SIG_BLOCK, &blocked_, &before_), 0);
  sigset_t taken = blocked_;
  sigdelset(&taken, SIGPIPE);  // a failed write() says it as well
  signals_ = Descriptor(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  CHECK_GE(signals_.number(), 0);
}

HeldSignals::~HeldSignals() {
  const timespec at_once = {};
  while (::sigtimedwait(&blocked_, nullptr, &at_once) > 0) {
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> HeldSignals::next() {
  signalfd_siginfo signal;
  if (::read(signals_.number(), &signal, sizeof signal) != static_cast<ssize_t>(sizeof signal)) return std::nullopt;
  return static_cast<int>(signal.ssi_signo);
}

}  // namespace paceline
