#include "paceline/launch/fruitless_starts.h"

#include <gtest/gtest.h>

#include <csignal>

namespace paceline {
namespace {

const Ending kExit = {.code = 5};
const Ending kKill = {.signal = SIGKILL};

TEST(FruitlessStarts, TheSameExitWithoutProgressIsHopelessTheSecondTime) {
  FruitlessStarts starts;
  EXPECT_FALSE(starts.add("server 0", kExit, "no space", 0));
  EXPECT_FALSE(starts.add("server 1", kExit, "no space", 0));  // another process
  EXPECT_TRUE(starts.add("server 0", kExit, "no space", 0));
}

TEST(FruitlessStarts, ProgressOrAnotherFailureBeginsAnew) {
  FruitlessStarts starts;
  EXPECT_FALSE(starts.add("server 0", kExit, "no space", 0));
  EXPECT_FALSE(starts.add("server 0", kExit, "no space", 64));
  EXPECT_FALSE(starts.add("server 0", kExit, "the port is in use", 64));
  EXPECT_FALSE(starts.add("server 0", {.code = 1}, "the port is in use", 64));
  EXPECT_TRUE(starts.add("server 0", {.code = 1}, "the port is in use", 64));
}

TEST(FruitlessStarts, KillsAreForgivenLonger) {
  FruitlessStarts starts;
  for (int i = 1; i < FruitlessStarts::kMostKills; ++i) EXPECT_FALSE(starts.add("server 0", kKill, "", 7)) << i;
  EXPECT_TRUE(starts.add("server 0", kKill, "", 7));
}

}  // namespace
}  // namespace paceline
