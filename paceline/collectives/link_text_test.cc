#include "paceline/collectives/link_text.h"

#include <gmock/gmock.h>

#include "paceline/collectives/platforms.h"
#include "paceline/core/error.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(LinkText, ABandwidthIsInBitsOrBytes) {
  for (const char* text : {"25Gbit", "25Gbit/s", "25 Gb/s", "25Gbps", "3.125GB", "3.125GB/s", "3125MB/s"})
    EXPECT_DOUBLE_EQ(parse_bandwidth(text), 3.125e9) << text;
  for (const char* text : {"", "25", "fast", "0Gbit", "-1GB", "25Gbyte", "25bit", "nanGbit"})
    EXPECT_THROW(parse_bandwidth(text), UsageError) << text;
}

TEST(LinkText, ALatencyHasAUnit) {
  EXPECT_DOUBLE_EQ(parse_latency("3us"), 3e-6);
  EXPECT_DOUBLE_EQ(parse_latency("500 ns"), 500e-9);
  EXPECT_DOUBLE_EQ(parse_latency("0.5ms"), 0.5e-3);
  for (const char* text : {"", "3", "3s", "-3us", "us"}) EXPECT_THROW(parse_latency(text), UsageError) << text;
}

TEST(LinkText, AssumptionsAreThoseOfTheLinksThatAreUsed) {
  EXPECT_THAT(assumptions_of(platform("abci", 64)),
              HasSubstr("between hosts (of each host): 25 GB/s (200 Gbit/s), 5 us"));
  EXPECT_THAT(assumptions_of(platform("abci", 64)), HasSubstr("abci: "));
  EXPECT_THAT(assumptions_of(platform("shm", 4)), HasSubstr("shared memory"));
  EXPECT_THAT(assumptions_of(platform("shm", 4)), Not(HasSubstr("between hosts")));
  EXPECT_EQ(assumptions_of(platform("shm", 1)), "");
}

}  // namespace
}  // namespace paceline
