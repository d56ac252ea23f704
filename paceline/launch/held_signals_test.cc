#include "paceline/launch/held_signals.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(HeldSignals, TellWhichSignalCame) {
  HeldSignals signals;
  EXPECT_EQ(signals.next(), std::nullopt);
  std::raise(SIGTERM);
  EXPECT_EQ(signals.next(), SIGTERM);
  EXPECT_EQ(signals.next(), std::nullopt);
}

// The process was started under nohup: the terminal's hang-up must not end it.
TEST(HeldSignals, AnIgnoredSignalStaysIgnored) {
  auto* const before = std::signal(SIGHUP, SIG_IGN);
  {
    HeldSignals signals;
    std::raise(SIGHUP);
    EXPECT_EQ(signals.next(), std::nullopt);
    std::raise(SIGINT);
    EXPECT_EQ(signals.next(), SIGINT);
  }
  std::signal(SIGHUP, before);
}

}  // namespace
}  // namespace paceline
