#include "paceline/core/process_tuning.h"

#include <unistd.h>

#include <cstdlib>

namespace paceline {

void tune_process(char** argv) {
  constexpr const char* kTuned = "PACELINE_TUNED";
  if (std::getenv(kTuned) != nullptr) return;
  ::setenv(kTuned, "1", 1);
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) ::setenv("GOMP_SPINCOUNT", "10000", 0);  // about 20 microseconds
  ::setenv("GLIBC_TUNABLES",
           "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=2000000000:"
           "glibc.malloc.trim_threshold=8000000000:glibc.malloc.top_pad=64000000",
           0);
  ::execv("/proc/self/exe", argv);
}

}  // namespace paceline
