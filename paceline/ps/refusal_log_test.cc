#include "paceline/ps/refusal_log.h"

#include <gmock/gmock.h>

#include <vector>

namespace paceline {
namespace {

TEST(RefusalLog, WritesAFewLinesPerSecondAndCountsTheRest) {
  std::vector<std::string> lines;
  Log log([&](std::string_view line) { lines.emplace_back(line); });
  RefusalLog refusals(&log);
  const auto start = std::chrono::steady_clock::time_point(std::chrono::hours(5));
  for (int i = 0; i < 100; ++i) refusals.add("ipv4:10.0.0.9:1", "why", start + std::chrono::milliseconds(i));
  EXPECT_EQ(lines.size(), 5u);
  refusals.add("ipv4:10.0.0.9:1", "why", start + std::chrono::milliseconds(1000));
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_EQ(lines[5], "warning: 95 more clients were refused");
  EXPECT_EQ(lines[6], "warning: refused ipv4:10.0.0.9:1: why");
}

}  // namespace
}  // namespace paceline
