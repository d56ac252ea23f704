#include "paceline/schedule/from_recipe.h"

#include <gmock/gmock.h>

#include "paceline/core/error.h"

namespace paceline {
namespace {

Schedule schedule_of(const std::string& toml, int64_t global_batch = 128) {
  return rate_schedule(parse_recipe(toml, "r.toml"), global_batch);
}

TEST(RateSchedule, DefaultIsTheConstantRate) {
  const Schedule rate = schedule_of("");
  EXPECT_EQ(rate(0), 0.1);
  EXPECT_EQ(rate(100), 0.1);
}

TEST(RateSchedule, GoyalFromARecipe) {
  const Schedule rate = schedule_of(R"(
    batch.local = 32
    train.epochs = 90
    optimizer.rate = 0.1
    [schedule]
    name = "step"
    reference_batch = 256
    warmup_epochs = 5
    warmup_from = 0.1
    milestones = [30, 60, 80]
    factor = 0.1)",
                                    8192);
  EXPECT_DOUBLE_EQ(rate(0), 0.1);
  EXPECT_DOUBLE_EQ(rate(2.5), 1.65);
  EXPECT_DOUBLE_EQ(rate(5), 3.2);
  EXPECT_DOUBLE_EQ(rate(89), 0.0032);
}

TEST(RateSchedule, EveryNameHasItsShape) {
  const std::string rest = "\ntrain.epochs = 10\noptimizer.rate = 2\n";
  EXPECT_DOUBLE_EQ(schedule_of("schedule.name = \"constant\"" + rest)(5), 2);
  EXPECT_DOUBLE_EQ(schedule_of("schedule = {name = \"step\", milestones = [5], factor = 0.5}" + rest)(5), 1);
  EXPECT_DOUBLE_EQ(schedule_of("schedule = {name = \"exponential\", factor = 0.5}" + rest)(2), 0.5);
  EXPECT_DOUBLE_EQ(schedule_of("schedule = {name = \"polynomial\", power = 3, end_rate = 1}" + rest)(5), 1.125);
  EXPECT_DOUBLE_EQ(schedule_of("schedule = {name = \"cosine\", end_rate = 1}" + rest)(5), 1.5);
}

TEST(RateSchedule, RefusesAnEndAboveTheScaledRate) {
  const std::string toml = "train.epochs = 10\n[schedule]\nname = \"cosine\"\nend_rate = 0.1\nreference_batch = 256\n";
  EXPECT_DOUBLE_EQ(schedule_of(toml, 256)(10), 0.1);
  EXPECT_THAT([&] { schedule_of(toml, 128); },
              testing::ThrowsMessage<RecipeError>(
                  "r.toml:4:1: schedule.end_rate: 0.1 is above the rate that it starts from, 0.05"));
}

}  // namespace
}  // namespace paceline
