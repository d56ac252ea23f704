#include "paceline/train/training_window.h"

#include <gtest/gtest.h>

#include <limits>

#include "paceline/comm/engine_local.h"

namespace paceline {
namespace {

struct Step {
  double loss = 1;
  bool gradient_finite = true;
  bool skipped = false;
};

std::optional<BadStep> drained(const std::vector<Step>& steps, RunState& state) {
  const auto group = make_local_group();
  TrainingWindow window(state, *group);
  for (size_t i = 0; i < steps.size(); ++i)
    window.add({.loss_sum = torch::tensor(steps[i].loss),
                .correct = torch::tensor(1, torch::kInt64),
                .samples = 2,
                .skipped = steps[i].skipped,
                .not_finite = torch::tensor(steps[i].gradient_finite ? 0.0 : 1.0)},
               {.number = static_cast<int64_t>(i) + 1, .cursor_samples = 10 * i});
  return window.drain();
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(TrainingWindow, AddsUpWhatIsFinite) {
  RunState state;
  EXPECT_FALSE(drained({{.loss = 1}, {.loss = kInfinity, .skipped = true}, {.loss = 3}}, state));
  EXPECT_EQ(state.window_loss_sum, 4);
  EXPECT_EQ(state.window_samples, 4);
  EXPECT_EQ(state.window_steps, 3);
}

// Every rank has the same gradients, and must name the same step: then they look for its layer together.
TEST(TrainingWindow, AGradientThatIsNotFiniteComesBeforeALossOfThisRankAlone) {
  RunState state;
  const auto bad = drained(
      {{}, {.loss = kInfinity}, {.loss = 5}, {.loss = 7, .gradient_finite = false}, {.gradient_finite = false}}, state);
  ASSERT_TRUE(bad);
  EXPECT_EQ(bad->place.number, 4);
  EXPECT_EQ(bad->place.cursor_samples, 30u);
  EXPECT_TRUE(bad->loss_finite);
  EXPECT_FALSE(bad->gradients_finite);
}

TEST(TrainingWindow, TheFirstLossOfThisRankAloneIsNamedWhereGradientsAreFinite) {
  RunState state;
  const auto bad = drained({{}, {.loss = kInfinity}, {.loss = 5}, {.loss = kInfinity}}, state);
  ASSERT_TRUE(bad);
  EXPECT_EQ(bad->place.number, 2);
  EXPECT_FALSE(bad->loss_finite);
  EXPECT_TRUE(bad->gradients_finite);
  EXPECT_EQ(state.window_loss_sum, 1);  // what came after it counts no more
}

}  // namespace
}  // namespace paceline
