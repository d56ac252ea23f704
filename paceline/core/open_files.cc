#include "paceline/core/open_files.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>

#include "paceline/core/error.h"

namespace paceline {

size_t open_files() {
  size_t count = 0;
  std::error_code ignored;
  for (auto file = std::filesystem::directory_iterator("/proc/self/fd", ignored);
       file != std::filesystem::directory_iterator(); file.increment(ignored))
    ++count;
  return count;
}

size_t allow_open_files(size_t count) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return count;  // nobody says what is allowed
  if (limit.rlim_cur >= count) return limit.rlim_cur;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = std::min<rlim_t>(count, limit.rlim_max);
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
}

void require_open_files(size_t more, const std::string& purpose) {
  const size_t needed = open_files() + more;
  const size_t allowed = allow_open_files(needed);
  if (allowed >= needed) return;
  throw UsageError(
      fmt::format("{0} needs {1} open files, and this process may have {2}: raise the limit with 'ulimit -n {1}'",
                  purpose, needed, allowed));
}

}  // namespace paceline
