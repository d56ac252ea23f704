#include "paceline/core/process_start.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>

namespace paceline {

sigset_t without_ignored(sigset_t signals) {
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    struct sigaction now = {};
    if (sigismember(&signals, signal) == 1 && ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN)
      sigdelset(&signals, signal);
  }
  return signals;
}

// In ascending order, because open() takes the lowest free number.
void open_closed_standard_streams() {
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(standard, F_GETFD) < 0 && errno == EBADF) ::open("/dev/null", O_RDWR);
}

}  // namespace paceline
