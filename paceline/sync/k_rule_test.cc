#include "paceline/sync/k_rule.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "paceline/sync/test_history.h"
#include "paceline/sync/time_rule.h"

namespace paceline {
namespace {

TEST(KBounds, AreAQuarterButTwoAtLeastAndFiveEighthsOfTheWorkers) {
  const auto bounds = [](int party) { return std::pair(k_bounds({}, party).k_min, k_bounds({}, party).k_max); };
  EXPECT_EQ(bounds(32), std::pair(8, 20));
  EXPECT_EQ(bounds(5), std::pair(2, 4));
  EXPECT_EQ(bounds(4), std::pair(2, 3));
  EXPECT_EQ(bounds(2), std::pair(2, 2));
  EXPECT_EQ(bounds(1), std::pair(1, 1));
  EXPECT_EQ(bounds(0), std::pair(1, 1));  // nobody is there: whoever comes
}

TEST(KBounds, AreWhatIsAskedForAsFarAsThereAreWorkers) {
  const SyncSettings asked = {.k_min = 3, .k_max = 6};
  EXPECT_EQ(k_bounds(asked, 8).k_min, 3);
  EXPECT_EQ(k_bounds(asked, 8).k_max, 6);
  EXPECT_EQ(k_bounds(asked, 4).k_max, 4);
  EXPECT_EQ(k_bounds(asked, 2).k_min, 2);
  EXPECT_EQ(k_bounds({.k_min = 7}, 8).k_max, 7);  // five eighths are less
}

TEST(SpreadOf, IsTheWeightedVarianceOfSingleGradients) {
  // Gradients 1 and 4 of 1 and 3 samples: m = 13/4, M2 = (9/4)² + 3·(3/4)² = 27/4
  GradientSpread spread;
  ASSERT_TRUE(spread_of({.samples = 4, .samples_squared = 10, .mean_norm2 = 169 / 16.0, .spread = 6.75}, spread));
  EXPECT_DOUBLE_EQ(spread.variance, 6.75 / 1.5);
  EXPECT_DOUBLE_EQ(spread.effective_count, 1.6);
}

TEST(SpreadOf, SaysNothingOfOneGradientOrOfOneThatIsNotFinite) {
  GradientSpread spread;
  EXPECT_FALSE(spread_of({.samples = 8, .samples_squared = 64, .mean_norm2 = 1, .spread = 0}, spread));
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(spread_of({.samples = 2, .samples_squared = 2, .mean_norm2 = infinity, .spread = 1}, spread));
  EXPECT_FALSE(spread_of({.samples = 2, .samples_squared = 2, .mean_norm2 = 1, .spread = infinity}, spread));
  EXPECT_FALSE(spread_of({}, spread));
}

// Twelve versions in which the four gradients come 10, 12, 14 and 100 ns after the start.
TimeRule after_twelve_versions(const GradientNoise* report) {
  TimeRule rule({.momentum = 0, .k_min = 1, .k_max = 4});
  for (uint64_t version = 0; version < 12; ++version) {
    const int64_t start_ns = static_cast<int64_t>(version) * 1000;
    rule.version(version, start_ns, 4);
    if (version < 8) {
      EXPECT_EQ(rule.k(4), 1);
    }
    int worker = 0;
    for (const int64_t after_ns : {10, 12, 14, 100})
      rule.push(push(worker++, version, 1, 0.5, start_ns + after_ns), start_ns);
    if (report) rule.noise(noise(version, *report), {});
  }
  return rule;
}

// Without momentum n_eff is k: worth of k is k/((k + kappa)·T_k).
TEST(TimeRule, WeighsWaitingAgainstNoise) {
  // Two gradients of one sample: S² = M2, k_e = 2.
  const GradientNoise quiet = {.samples = 2, .samples_squared = 2, .mean_norm2 = 1, .spread = 0};
  const GradientNoise kappa1 = {.samples = 2, .samples_squared = 2, .mean_norm2 = 3, .spread = 2};
  const GradientNoise kappa2 = {.samples = 2, .samples_squared = 2, .mean_norm2 = 2, .spread = 2};
  const GradientNoise hidden = {.samples = 2, .samples_squared = 2, .mean_norm2 = 0.5, .spread = 2};  // kappa = 1000
  EXPECT_EQ(after_twelve_versions(nullptr).k(4), 1);
  EXPECT_EQ(after_twelve_versions(&quiet).k(4), 1);
  EXPECT_EQ(after_twelve_versions(&kappa1).k(4), 2);  // 1/20 < 2/36 > 3/56
  EXPECT_EQ(after_twelve_versions(&kappa2).k(4), 3);  // 2/48 < 3/70 > 4/600
  EXPECT_EQ(after_twelve_versions(&hidden).k(4), 3);  // the fourth is not worth waiting for
}

TEST(TimeRule, StaysWithinTheBoundsOfThoseWhoAreLeft) {
  const GradientNoise hidden = {.samples = 2, .samples_squared = 2, .mean_norm2 = 0.5, .spread = 2};
  EXPECT_EQ(after_twelve_versions(&hidden).k(2), 2);
}

TEST(TimeRule, GoesOnWithWhatItSaved) {
  const GradientNoise kappa1 = {.samples = 2, .samples_squared = 2, .mean_norm2 = 3, .spread = 2};
  const TimeRule rule = after_twelve_versions(&kappa1);
  TimeRule other({.momentum = 0, .k_min = 1, .k_max = 4});
  other.load(nlohmann::json::parse(rule.save().dump()));
  EXPECT_EQ(other.save(), rule.save());
  EXPECT_EQ(other.k(4), 2);
}

}  // namespace
}  // namespace paceline
