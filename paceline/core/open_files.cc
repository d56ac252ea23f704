#include "paceline/core/open_files.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>

#include "paceline/core/error.h"

namespace paceline {
namespace {

size_t open_files() {
  size_t count = 0;
  std::error_code ignored;
  for (auto file = std::filesystem::directory_iterator("/proc/self/fd", ignored);
       file != std::filesystem::directory_iterator(); file.increment(ignored))
    ++count;
  return count;
}

}  // namespace

void allow_open_files(size_t count) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= count) return;
  limit.rlim_cur = std::min<rlim_t>(count, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void require_open_files(size_t more, const std::string& purpose) {
  const size_t needed = open_files() + more;
  allow_open_files(needed);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  throw UsageError(
      fmt::format("{0} needs {1} open files, and this process may have {2}: raise the limit with 'ulimit -n {1}'",
                  purpose, needed, limit.rlim_cur));
}

}  // namespace paceline
