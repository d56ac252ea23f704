#include "paceline/gradients/stale_sum.h"

#include <gmock/gmock.h>

#include <latch>

#include "paceline/comm/engine_local.h"

namespace paceline {
namespace {

struct Gradients {
  torch::Tensor first = torch::ones({3, 5}).set_requires_grad(true);
  torch::Tensor second = torch::ones({7}).set_requires_grad(true);

  std::vector<NamedParameter> named() const { return {{"first", first}, {"second", second}}; }
  void set(double value) const {
    first.mutable_grad() = torch::full({3, 5}, value);
    second.mutable_grad() = torch::full({7}, 2 * value);
  }
};

bool same(const torch::Tensor& tensor, double value) {
  return tensor.defined() && torch::equal(tensor, torch::full_like(tensor, value));
}

struct Case {
  int ranks;
  uint64_t staleness;
  bool overlap;
};

class StaleSumTest : public ::testing::TestWithParam<Case> {};

TEST_P(StaleSumTest, ASumComesSoManyStepsLaterAndTheRestAtTheEnd) {
  const auto& [ranks, staleness, overlap] = GetParam();
  const double all = ranks * (ranks + 1) / 2.0;
  run_ranks(ranks, [&, staleness = staleness, overlap = overlap](Group& group) {
    const Gradients gradients;
    StaleSum sums(gradients.named(), group, {.staleness = staleness, .overlap = overlap});
    constexpr uint64_t kSteps = 9;
    std::array<double, 2> riders = {};
    const auto expect_sum_of = [&](uint64_t step) {
      const auto of_step = static_cast<double>(step);
      EXPECT_TRUE(same(gradients.first.grad(), of_step * all)) << step;
      EXPECT_TRUE(same(gradients.second.grad(), 2 * of_step * all)) << step;
      EXPECT_EQ(riders[0], of_step * group.size());
      EXPECT_EQ(riders[1], all);
    };
    for (uint64_t step = 0; step < kSteps; ++step) {
      gradients.set(static_cast<double>(step) * (group.rank() + 1));
      riders = {static_cast<double>(step), group.rank() + 1.0};
      ASSERT_EQ(sums.exchange(riders), step >= staleness);
      if (step >= staleness) {
        expect_sum_of(step - staleness);
      } else {
        EXPECT_FALSE(gradients.first.grad().defined());
        EXPECT_EQ(riders[1], 0);
      }
    }
    for (uint64_t step = kSteps - std::min(staleness, kSteps); step < kSteps; ++step) {
      EXPECT_EQ(sums.under_way(), kSteps - step);
      ASSERT_TRUE(sums.take_next(riders));
      expect_sum_of(step);
    }
    EXPECT_FALSE(sums.take_next(riders));
    // And from there on anew.
    gradients.set(1);
    EXPECT_EQ(sums.exchange(), staleness == 0);
  });
}

INSTANTIATE_TEST_SUITE_P(RanksAndStaleness, StaleSumTest,
                         ::testing::Values(Case{1, 0, true}, Case{1, 2, true}, Case{3, 0, true}, Case{3, 1, true},
                                           Case{2, 3, true}, Case{3, 2, false}, Case{2, 12, true}));

TEST(StaleSum, ARankMayBeSoManyStepsAhead) {
  std::latch ahead(1);
  run_ranks(2, [&](Group& group) {
    const Gradients gradients;
    StaleSum sums(gradients.named(), group, {.staleness = 2});
    if (group.rank() == 1) ahead.wait();
    for (int step = 0; step < 2; ++step) {
      gradients.set(1);
      EXPECT_FALSE(sums.exchange());
    }
    if (group.rank() == 0) ahead.count_down();  // the other has not begun
    gradients.set(1);
    EXPECT_TRUE(sums.exchange());
    EXPECT_TRUE(same(gradients.first.grad(), 2));
  });
}

TEST(StaleSum, AParameterWithoutGradientCountsAsZeroAndOnNoRankHasNone) {
  run_ranks(2, [&](Group& group) {
    const Gradients gradients;
    StaleSum sums(gradients.named(), group, {.staleness = 1});
    for (int step = 0; step < 3; ++step) {
      gradients.set(step + 1);
      gradients.second.mutable_grad().reset();
      if (group.rank() == 1) gradients.first.mutable_grad().reset();
      if (!sums.exchange()) continue;
      EXPECT_TRUE(same(gradients.first.grad(), step));
      EXPECT_FALSE(gradients.second.grad().defined());
    }
  });
}

TEST(StaleSum, WhatIsUnderWayCanBeSavedAndGoesOn) {
  for (const uint64_t saved_after : {1u, 2u, 5u}) {
    run_ranks(2, [&](Group& group) {
      const auto value = [&](uint64_t step) { return 0.1 * static_cast<double>(step + 1) * (group.rank() + 1); };
      const Gradients whole, cut;
      StaleSum one(whole.named(), group, {.staleness = 2}), before(cut.named(), group, {.staleness = 2});
      for (uint64_t step = 0; step < saved_after; ++step) {
        whole.set(value(step));
        one.exchange();
        cut.set(value(step));
        before.exchange();
      }
      std::map<std::string, torch::Tensor> kept;
      for (const auto& [name, tensor] : before.state()) kept[name] = tensor.clone();
      const uint64_t ages = std::min<uint64_t>(saved_after, 2);
      EXPECT_EQ(kept.size(), 3 * ages);
      EXPECT_TRUE(kept.contains("stale.1.first"));

      StaleSum after(cut.named(), group, {.staleness = 2});
      for (auto& [name, tensor] : after.resume(ages)) tensor.copy_(kept.at(name));
      for (uint64_t step = saved_after; step < saved_after + 4; ++step) {
        whole.set(value(step));
        cut.set(value(step));
        ASSERT_EQ(after.exchange(), one.exchange());
        if (!whole.first.grad().defined()) continue;
        EXPECT_TRUE(torch::equal(cut.first.grad(), whole.first.grad()));
        EXPECT_TRUE(torch::equal(cut.second.grad(), whole.second.grad()));
      }
      EXPECT_TRUE(after.all_finite());
    });
  }
}

TEST(StaleSum, KnowsWhenWhatIsUnderWayIsNotFinite) {
  run_ranks(2, [&](Group& group) {
    const Gradients gradients;
    StaleSum sums(gradients.named(), group, {.staleness = 1});
    gradients.set(group.rank() == 1 ? NAN : 1);
    sums.exchange();
    EXPECT_FALSE(sums.all_finite());
  });
}

}  // namespace
}  // namespace paceline
