#include "paceline/core/thread_room.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <latch>
#include <string_view>
#include <vector>

#include "paceline/core/error.h"

namespace paceline {
namespace {

// Allocates nothing: there may be no memory.
void say(std::string_view text) {
  [[maybe_unused]] const ssize_t told = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

void require_threads(int count) {
  rlimit addresses{};
  if (::getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY) ::mallopt(M_ARENA_MAX, 1);
  std::latch end(1);
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<size_t>(count));
  try {
    while (threads.size() < static_cast<size_t>(count)) threads.emplace_back([&end] { end.wait(); });
  } catch (...) {
    end.count_down();
    throw;
  }
  end.count_down();
}

StartDeadline::StartDeadline(const char* what, int64_t most_ms)
    : thread_([this, what, most_ms] {
        std::unique_lock lock(mutex_);
        if (ended_.wait_for(lock, std::chrono::milliseconds(most_ms), [this] { return over_; })) return;
        say("paceline: ");
        say(what);
        say(" has begun and does not answer, as where it gets no memory or threads; use fewer ranks or threads, or "
            "raise "
            "the limit (ulimit -v, ulimit -u, the container's memory and pids)\n");
        ::_exit(static_cast<int>(ExitCode::file));
      }) {}

StartDeadline::~StartDeadline() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

}  // namespace paceline
