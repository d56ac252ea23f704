#include "paceline/core/process_tuning.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

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
  // By its real name: through the link, ps and killall would call the process "exe".
  std::error_code failure;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failure);
  if (!failure) ::execv(program.c_str(), argv);
}

}  // namespace paceline
