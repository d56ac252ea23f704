#include "paceline/collectives/measure.h"

#include <gmock/gmock.h>

#include <chrono>

#include "paceline/collectives/all_reduce.h"
#include "paceline/collectives/platforms.h"
#include "paceline/comm/engine_local.h"

namespace paceline {
namespace {

void work_for(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

std::vector<double> medians(const std::vector<Timing>& timings) {
  std::vector<double> medians;
  for (const Timing& timing : timings) medians.push_back(timing.median_s);
  return medians;
}

TEST(Quantile, LiesBetweenItsNeighbours) {
  const std::vector<double> sorted = {1, 2, 4, 8};
  EXPECT_EQ(quantile(sorted, 0), 1);
  EXPECT_EQ(quantile(sorted, 0.5), 3);
  EXPECT_EQ(quantile(sorted, 0.25), 1.75);
  EXPECT_EQ(quantile(sorted, 1), 8);
  EXPECT_EQ(quantile(std::vector<double>{7}, 0.75), 7);
}

TEST(TimeInterleaved, GivesEveryContenderItsTrialsAndAllRanksTheSameTimes) {
  std::vector<std::vector<double>> of_rank(2);
  run_ranks(2, [&](Group& group) {
    const auto half_millisecond = [] { work_for(std::chrono::microseconds(500)); };
    const std::vector<Contender> contenders = {{"local", "nothing", {}, [] {}},
                                               {"local", "work", {}, half_millisecond},
                                               {"local", "barrier", {}, [&] { group.barrier(); }}};
    const auto coordination = group.split(0, group.rank());
    const std::vector<Timing> timings = time_interleaved(*coordination, contenders, {.trials = 5, .batch_s = 1e-4});
    ASSERT_EQ(timings.size(), 3u);
    for (const Timing& timing : timings) {
      EXPECT_EQ(timing.trials, 5);
      EXPECT_GE(timing.calls, 1);
      EXPECT_LE(timing.lower_quartile_s, timing.median_s);
      EXPECT_LE(timing.median_s, timing.upper_quartile_s);
    }
    EXPECT_GE(timings[1].lower_quartile_s, 500e-6);
    EXPECT_GT(timings[0].calls, 1);
    of_rank[group.rank()] = medians(timings);
  });
  EXPECT_EQ(of_rank[0], of_rank[1]);
}

TEST(TimeInterleaved, TheTimeIsThatOfTheSlowestRank) {
  run_ranks(3, [](Group& group) {
    const Contender contender = {"local", "work of the last rank", {}, [&] {
                                   if (group.rank() == 2) work_for(std::chrono::microseconds(300));
                                 }};
    const auto timings = time_interleaved(group, std::span(&contender, 1), {.trials = 3, .batch_s = 1e-4});
    EXPECT_GE(timings[0].lower_quartile_s, 300e-6);
  });
}

TEST(TimeInterleaved, SpendsLittleOnTheHopelessAndNoMoreThanTheBudgetAllows) {
  run_ranks(2, [](Group& group) {
    const std::vector<Contender> contenders = {{"local", "nothing", {}, [] {}},
                                               {"local", "slow", {}, [] { work_for(std::chrono::microseconds(500)); }}};
    const auto hopeless =
        time_interleaved(group, contenders, {.trials = 7, .fewest_trials = 2, .batch_s = 1e-5, .hopeless = 2});
    EXPECT_EQ(hopeless[0].trials, 7);
    EXPECT_EQ(hopeless[1].trials, 2);
    const auto short_of_time =
        time_interleaved(group, contenders, {.trials = 7, .fewest_trials = 3, .batch_s = 1e-5, .budget_s = 1e-5});
    EXPECT_EQ(short_of_time[0].trials, 3);
    EXPECT_EQ(short_of_time[1].trials, 3);
  });
}

TEST(LargestError, OfARightSumIsWithinRounding) {
  run_ranks(5, [](Group& group) {
    const Cluster cluster = cluster_of(group);
    std::vector<float> data(10'007);
    for (const char* name : {"ring", "direct"}) {
      const auto algorithm = all_reduce_algorithm(name).make(group, cluster, cluster.default_grid());
      const double error =
          largest_error(group, {"local", name, view(data), [&] { algorithm->run(view(data), ReduceOp::sum); }});
      EXPECT_GT(error, 0);  // the numbers are such that something is rounded
      EXPECT_LE(error, largest_rounding(5));
      EXPECT_THAT(data, ::testing::Each(0.0f));
    }
  });
}

TEST(LargestError, FindsOneWrongElementOfOneRankOnEveryRank) {
  run_ranks(3, [](Group& group) {
    const Cluster cluster = cluster_of(group);
    const auto ring = all_reduce_algorithm("ring").make(group, cluster, cluster.default_grid());
    std::vector<float> data(5000);
    const auto error_when = [&](const std::function<void(float& element)>& damage) {
      return largest_error(group, {"local", "damaged", view(data), [&] {
                                     ring->run(view(data), ReduceOp::sum);
                                     if (group.rank() == 1) damage(data[4999]);
                                   }});
    };
    EXPECT_GT(error_when([](float& element) { element += 0.01f; }), largest_rounding(3));
    EXPECT_EQ(error_when([](float& element) { element = std::numeric_limits<float>::quiet_NaN(); }),
              std::numeric_limits<double>::infinity());
  });
}

}  // namespace
}  // namespace paceline
