#include "paceline/core/fast_clock.h"

#include <gmock/gmock.h>

namespace paceline {
namespace {

TEST(FastClock, AgreesWithTheSteadyClock) {
  FastClock clock;
  const auto steady_ns = [] {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  const int64_t begin_ns = steady_ns();
  int wrong = 0;
  while (steady_ns() - begin_ns < 50'000'000) {  // several of its questions
    const int64_t before = steady_ns(), fast = clock.now_ns(), after = steady_ns();
    if (fast < before - 200'000 || fast > after + 200'000) ++wrong;
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace paceline
