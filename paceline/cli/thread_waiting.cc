#include "paceline/cli/thread_waiting.h"

#include <unistd.h>

#include <cstdlib>

namespace paceline {

void wait_politely(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  ::setenv("GOMP_SPINCOUNT", "10000", 0);  // about 20 microseconds
  ::execv("/proc/self/exe", argv);
  // Not restarted (no /proc): training is right all the same, only slower on a busy machine.
}

}  // namespace paceline
