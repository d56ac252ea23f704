#include "paceline/core/thread_room.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "paceline/core/error.h"

namespace paceline {
namespace {

TEST(ThreadRoom, IsThereWhereNothingIsLimited) { EXPECT_NO_THROW(require_threads(16)); }

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they need more addresses than any limit leaves
[[noreturn]] void ask_for_threads_in_little_space() {
  constexpr rlim_t kBytes = 64 << 20;  // what the program takes, and eight stacks at the most
  const rlimit small = {.rlim_cur = kBytes, .rlim_max = kBytes};
  ::setrlimit(RLIMIT_AS, &small);
  try {
    require_threads(64);
  } catch (const std::system_error& failure) {
    std::_Exit(failure.code() == std::errc::resource_unavailable_try_again ? 5 : 1);
  }
  std::_Exit(0);
}

TEST(ThreadRoom, IsRefusedWhereTheAddressSpaceIsUsedUp) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(ask_for_threads_in_little_space(), testing::ExitedWithCode(5), "");
}
#endif

TEST(StartDeadline, EndsAProcessWhoseCallDoesNotReturn) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        const StartDeadline deadline("a library", 50);
        std::this_thread::sleep_for(std::chrono::seconds(60));
      },
      testing::ExitedWithCode(5), "paceline: a library has begun and does not answer, as where it gets no memory");
}

TEST(StartDeadline, LeavesACallAloneThatReturns) {
  const auto begun = std::chrono::steady_clock::now();
  { const StartDeadline deadline("a library", 60'000); }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(30));
}

}  // namespace
}  // namespace paceline
