#include "paceline/ps/command.h"

#include <gmock/gmock.h>

#include <limits>

#include "paceline/core/error.h"

namespace paceline {
namespace {

Command example(Decision::Kind kind) {
  return {.index = 0x0102030405060708,
          .sequence = 77,
          .decision = {.kind = kind, .worker = 3, .version = 12, .samples = 256, .rate = 0.1, .factor = -0.81}};
}

Command there_and_back(Command command) { return command_from(to_bytes(command)); }

TEST(CommandBytes, EveryKindComesBackAsItWas) {
  for (int kind = 0; kind <= static_cast<int>(Decision::Kind::release); ++kind) {
    Command command = example(static_cast<Decision::Kind>(kind));
    command.index = 9'000'000'000;
    EXPECT_EQ(there_and_back(command), command) << kind;
  }
  Command step = example(Decision::Kind::step);
  step.index = 1;
  step.sequence = 0;
  step.decision.worker = -1;
  EXPECT_EQ(there_and_back(step), step);
}

TEST(CommandBytes, AreLittleEndianAtFixedPlaces) {
  const auto bytes = to_bytes(example(Decision::Kind::exchange));
  EXPECT_EQ(bytes[0], std::byte{8});
  EXPECT_EQ(bytes[7], std::byte{1});
  EXPECT_EQ(bytes[8], std::byte{77});
  EXPECT_EQ(bytes[16], std::byte{5});
  EXPECT_EQ(bytes[20], std::byte{3});
  EXPECT_EQ(bytes[24], std::byte{12});
  EXPECT_EQ(bytes[33], std::byte{1});
}

TEST(CommandBytes, WhatCannotBeACommandIsRefused) {
  const auto refused = [](auto change) {
    Command command = example(Decision::Kind::accumulate);
    command.index = 5;
    EXPECT_NO_THROW(there_and_back(command));
    change(command);
    EXPECT_THROW(there_and_back(command), PeerError);
  };
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  refused([](Command& c) { c.index = 0; });
  refused([](Command& c) { c.index = ~uint64_t{0}; });
  refused([](Command& c) { c.decision.kind = static_cast<Decision::Kind>(8); });
  refused([](Command& c) { c.decision.worker = -1; });
  refused([](Command& c) { c.decision.worker = -2; });
  refused([](Command& c) { c.decision.version = ~uint64_t{0}; });
  refused([](Command& c) { c.decision.samples = ~uint64_t{0}; });
  refused([](Command& c) { c.decision.samples = 0; });
  refused([](Command& c) { c.decision.rate = kInfinite; });
  refused([](Command& c) { c.decision.rate = kNan; });
  refused([](Command& c) { c.decision.rate = -0.1; });
  refused([](Command& c) { c.decision.factor = -kInfinite; });
  refused([](Command& c) { c.decision.factor = kNan; });
  refused([](Command& c) { c.decision = {.kind = Decision::Kind::step, .version = 0}; });
  refused([](Command& c) { c.decision = {.kind = Decision::Kind::step, .worker = -2, .version = 1}; });
}

TEST(CommandBytes, OtherBytesAreRefused) {
  std::array<std::byte, kCommandBytes> bytes = {};
  EXPECT_THROW(command_from(bytes), PeerError);
  Command command = example(Decision::Kind::drop);
  command.index = 1;
  bytes = to_bytes(command);
  for (const size_t place : {17, 19, 56, 63}) {  // the kind's upper bytes, the format
    auto changed = bytes;
    changed[place] ^= std::byte{0x40};
    EXPECT_THROW(command_from(changed), PeerError) << place;
  }
}

}  // namespace
}  // namespace paceline
