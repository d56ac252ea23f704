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

TEST(RateSchedule, AWarmUpMayEndElsewhere) {
  const std::string rest = "\ntrain.epochs = 10\noptimizer.rate = 2\n[schedule]\nwarmup_epochs = 4\nwarmup_from = 1\n";
  const Schedule meets = schedule_of(rest + "name = \"polynomial\"\npower = 1\n");
  EXPECT_DOUBLE_EQ(meets(2), 1.1);  // halfway to 2(1 - 4/10)
  const Schedule jumps = schedule_of(rest + "name = \"polynomial\"\npower = 1\nwarmup_to = 3\n");
  EXPECT_DOUBLE_EQ(jumps(2), 2);
  EXPECT_DOUBLE_EQ(jumps(4), 1.2);
}

TEST(RateSchedule, ADecayMayStartWhereTheWarmUpEnds) {
  const std::string rest =
      "\ntrain.epochs = 12\noptimizer.rate = 2\n[schedule]\nwarmup_epochs = 4\ndecay_from = \"warmup_end\"\n";
  for (const char* name : {"exponential", "polynomial", "cosine"}) {
    const Schedule rate = schedule_of(rest + "name = \"" + name + "\"\n");
    EXPECT_DOUBLE_EQ(rate(2), 1) << name;
    EXPECT_DOUBLE_EQ(rate(4), 2) << name;
  }
  EXPECT_DOUBLE_EQ(schedule_of(rest + "name = \"exponential\"\nfactor = 0.5\n")(6), 0.5);
  EXPECT_DOUBLE_EQ(schedule_of(rest + "name = \"polynomial\"\n")(8), 0.5);
  EXPECT_DOUBLE_EQ(schedule_of(rest + "name = \"cosine\"\nend_rate = 1\n")(8), 1.5);
  EXPECT_EQ(schedule_of(rest + "name = \"polynomial\"\n")(12), 0);
}

// Lu's: lr·N until T, where both bounds of the warm-up are lr·N, then lr·N·kappa^(epoch - T).
TEST(RateSchedule, OfTheHybridStaysUntilItHandsOver) {
  const std::string hybrid = R"(
    train.epochs = 12
    optimizer = {name = "hybrid", rate = 2, hybrid_epochs = 4}
    [schedule]
    name = "exponential"
    factor = 0.5
  )";
  const Schedule rate = schedule_of(hybrid);
  for (const double epoch : {0.0, 2.0, 4.0}) EXPECT_DOUBLE_EQ(rate(epoch), 2) << epoch;
  EXPECT_DOUBLE_EQ(rate(5), 1);
  EXPECT_DOUBLE_EQ(rate(7), 0.25);
  EXPECT_DOUBLE_EQ(schedule_of(hybrid + "decay_from = \"start\"\n")(2), 0.5);
}

TEST(RateSchedule, RatesOfPhasesAreScaledAsTheFirst) {
  const Schedule rate = schedule_of(R"(
    train.epochs = 10
    optimizer.rate = 1
    [schedule]
    name = "polynomial"
    power = 1
    reference_batch = 64
    milestones = [4, 8]
    rates = [3, 10])",
                                    128);
  EXPECT_DOUBLE_EQ(rate(2), 2 * 0.8);
  EXPECT_DOUBLE_EQ(rate(4), 6 * 0.6);
  EXPECT_DOUBLE_EQ(rate(8), 20 * (1 - 0.8));
}

TEST(RateSchedule, KnowsItsHighestRate) {
  const auto highest = [](const std::string& toml) { return highest_rate(parse_recipe(toml, "r.toml"), 512); };
  EXPECT_EQ(highest("optimizer.rate = 0.25"), 0.25);
  EXPECT_EQ(highest("optimizer.rate = 0.25\nschedule.reference_batch = 256"), 0.5);
  EXPECT_EQ(highest("optimizer.rate = 0.25\nschedule = {warmup_epochs = 0.5, warmup_to = 3}"), 3);
  EXPECT_EQ(highest("train.epochs = 4\noptimizer.rate = 2\n"
                    "schedule = {name = 'polynomial', reference_batch = 256, milestones = [1], rates = [5]}"),
            10);
}

TEST(FillSchedule, ChangesWithTheBatch) {
  const auto fill_of = [](const std::string& toml) { return fill_schedule(parse_recipe(toml, "r.toml")); };
  EXPECT_EQ(fill_of("").at(0), 1u);
  const std::string phases = "train.epochs = 9\nbatch.milestones = [3]\nbatch.sizes = [256]\nbatch.fill = 16\n";
  EXPECT_EQ(fill_of(phases).at(3), 16u);
  const BatchSchedule fill = fill_of(phases + "batch.fills = [32]\n");
  EXPECT_EQ(fill.at(2.9), 16u);
  EXPECT_EQ(fill.at(3), 32u);
}

TEST(RateSchedule, RefusesAnEndAboveTheScaledRate) {
  const std::string toml = "train.epochs = 10\n[schedule]\nname = \"cosine\"\nend_rate = 0.1\nreference_batch = 256\n";
  EXPECT_DOUBLE_EQ(schedule_of(toml, 256)(10), 0.1);
  EXPECT_THAT([&] { schedule_of(toml, 128); },
              testing::ThrowsMessage<RecipeError>(
                  "r.toml:4:1: schedule.end_rate: 0.1 is above the rate that it starts from, 0.05"));
}

TEST(MomentumSchedule, RefusesAReferenceThatNoMomentumAboveZeroFollows) {
  const std::string toml = "batch.global = 128\noptimizer.momentum = 0.9\n[schedule]\nmomentum = \"noise_scale\"\n";
  const auto momentum_of = [&](const std::string& batch) {
    return momentum_schedule(parse_recipe(toml + "momentum_batch = " + batch, "r.toml"), 128);
  };
  EXPECT_NEAR(momentum_of("1280")(0), 0, 1e-12);
  EXPECT_THAT([&] { momentum_of("1281"); },
              testing::ThrowsMessage<RecipeError>("r.toml:5:1: schedule.momentum_batch: 1281 is more than 10 times the "
                                                  "batch of 128: no momentum above 0 has as much noise"));
}

}  // namespace
}  // namespace paceline
