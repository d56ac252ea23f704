#include "paceline/precision/loss_scale.h"

#include <gmock/gmock.h>

#include "paceline/core/error.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr LossScaleOptions kOptions = {.first = 1024, .growth_steps = 3, .floor = 4, .most_skips = 5};

void repeat(LossScale& scale, int times, bool overflow) {
  for (int i = 0; i < times; ++i) scale.update(overflow);
}

TEST(LossScale, DoublesAfterCleanSteps) {
  LossScale scale(kOptions);
  repeat(scale, 2, false);
  EXPECT_EQ(scale.value(), 1024);
  scale.update(false);
  EXPECT_EQ(scale.value(), 2048);
  repeat(scale, 3, false);
  EXPECT_EQ(scale.value(), 4096);
  EXPECT_EQ(scale.state().skipped_steps, 0);
}

TEST(LossScale, AnOverflowHalvesItAndBeginsTheCountAnew) {
  LossScale scale(kOptions);
  repeat(scale, 2, false);
  scale.update(true);
  EXPECT_EQ(scale.value(), 512);
  EXPECT_EQ(scale.state().skipped_steps, 1);
  repeat(scale, 2, false);
  EXPECT_EQ(scale.value(), 512);
  scale.update(false);
  EXPECT_EQ(scale.value(), 1024);
}

TEST(LossScale, StaysAboveItsFloorAndBelowItsCeiling) {
  LossScale falling({.first = 6, .floor = 4, .most_skips = 100});
  falling.update(true);
  EXPECT_EQ(falling.value(), 4);
  repeat(falling, 20, true);
  EXPECT_EQ(falling.value(), 4);
  LossScale rising({.first = 1, .growth_steps = 1});
  repeat(rising, 100, false);
  EXPECT_EQ(rising.value(), LossScale::kMost);
}

TEST(LossScale, TooManySkipsInARowAreAnErrorThatSaysWhatToDo) {
  LossScale scale(kOptions);
  repeat(scale, 4, true);
  scale.update(false);  // a clean one in between: the count begins anew
  repeat(scale, 4, true);
  EXPECT_EQ(scale.state().skipped_steps, 8);
  EXPECT_THAT([&] { scale.update(true); },
              ThrowsMessage<TrainingError>(AllOf(HasSubstr("5 steps in a row were skipped"),
                                                 HasSubstr("a loss scale of 4"), HasSubstr("the run has diverged"))));
}

TEST(LossScale, AStaticOneStaysAndSkips) {
  LossScale scale({.dynamic = false, .first = 100, .growth_steps = 1, .most_skips = 2});
  repeat(scale, 10, false);
  scale.update(true);
  EXPECT_EQ(scale.value(), 100);
  EXPECT_THAT([&] { scale.update(true); }, ThrowsMessage<TrainingError>(HasSubstr("try a lower precision.loss_scale")));
}

TEST(LossScale, GoesOnFromItsStateAsIfItHadNeverStopped) {
  LossScale whole(kOptions);
  const auto overflows = [](int step) { return step % 7 == 3; };
  for (int step = 0; step < 50; ++step) whole.update(overflows(step));
  for (int cut = 0; cut < 50; ++cut) {
    LossScale before(kOptions), after(kOptions);
    for (int step = 0; step < cut; ++step) before.update(overflows(step));
    after.resume(nlohmann::json::parse(nlohmann::json(before.state()).dump()).get<LossScaleState>());
    for (int step = cut; step < 50; ++step) after.update(overflows(step));
    EXPECT_EQ(after.state(), whole.state()) << cut;
  }
}

TEST(LossScale, ARunThatHadNoneBeginsWithTheRecipes) {
  LossScale scale(kOptions);
  scale.resume(LossScaleState{});
  EXPECT_EQ(scale.value(), 1024);
  LossScale fixed({.dynamic = false, .first = 100});
  fixed.resume({.scale = 64, .skipped_steps = 3});
  EXPECT_EQ(fixed.value(), 100);
  EXPECT_EQ(fixed.state().skipped_steps, 3);
}

}  // namespace
}  // namespace paceline
