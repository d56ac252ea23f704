#include "paceline/collectives/plan.h"

#include <gmock/gmock.h>

#include "paceline/collectives/all_reduce.h"
#include "paceline/collectives/platforms.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Plan plan_of(const Cluster& cluster, const Profile* profile = nullptr) {
  return make_plan(cluster, cluster.default_grid(), profile);
}

// Two algorithms, measured at three sizes: `direct_eager` starts quicker, `direct` ends quicker.
Profile crossing(double direct_at_16_kib = 4e-6) {
  return {{},
          {{"direct_eager", DType::f32, 1 << 10, 1e-6},
           {"direct", DType::f32, 1 << 10, 2e-6},
           {"direct_eager", DType::f32, 1 << 14, 4e-6},
           {"direct", DType::f32, 1 << 14, direct_at_16_kib},
           {"direct_eager", DType::f32, 1 << 18, 64e-6},
           {"direct", DType::f32, 1 << 18, 16e-6}}};
}

TEST(Plan, WithoutAProfileTheCheapestByTheModelIsChosenAtEverySize) {
  for (const std::string& name : platform_names()) {
    const Cluster cluster = platform(name, 12);
    const Plan plan = plan_of(cluster);
    EXPECT_FALSE(plan.measured);
    for (uint64_t bytes = 256; bytes <= 1 << 30; bytes *= 2) {
      const auto seconds = [&](const AllReduceAlgorithm& algorithm) {
        return algorithm.cost(cluster, plan.grid, static_cast<double>(bytes)).seconds;
      };
      double least = std::numeric_limits<double>::infinity();
      for (const AllReduceAlgorithm& algorithm : all_reduce_algorithms())
        if (algorithm.applies(cluster)) least = std::min(least, seconds(algorithm));
      EXPECT_LE(seconds(all_reduce_algorithm(plan.algorithm(DType::f32, bytes))), 1.05 * least) << name << bytes;
    }
  }
}

TEST(Plan, WhatWasMeasuredDecides) {
  const Profile profile = crossing();
  const Plan plan = plan_of(platform("shm", 4), &profile);
  EXPECT_TRUE(plan.measured);
  EXPECT_THAT(plan.algorithms(), ElementsAre("direct", "direct_eager"));
  ASSERT_EQ(plan.steps.at(DType::f32).size(), 2u);
  EXPECT_EQ(plan.algorithm(DType::f32, 1), "direct_eager");
  EXPECT_EQ(plan.algorithm(DType::f32, 1 << 10), "direct_eager");
  EXPECT_EQ(plan.algorithm(DType::f32, 1 << 18), "direct");
  EXPECT_EQ(plan.algorithm(DType::f32, uint64_t{1} << 40), "direct");
}

TEST(Plan, ATieGoesToTheOneOfTheSizeBelow) {
  const auto chosen_at_16_kib = [](double direct_seconds) {
    const Profile profile = crossing(direct_seconds);
    return plan_of(platform("shm", 4), &profile).algorithm(DType::f32, 1 << 14);
  };
  EXPECT_EQ(chosen_at_16_kib(4e-6), "direct_eager");
  EXPECT_EQ(chosen_at_16_kib(4e-6 / 1.029), "direct_eager");
  EXPECT_EQ(chosen_at_16_kib(4e-6 / 1.031), "direct");
}

TEST(Plan, AStepIncludesItsLastByte) {
  const Profile profile = crossing();
  const Plan plan = plan_of(platform("shm", 4), &profile);
  const uint64_t last = plan.steps.at(DType::f32)[0].up_to_bytes;
  EXPECT_EQ(last, static_cast<uint64_t>((1 << 15) / std::sqrt(2.0)));  // half way from 16 KiB to 32 KiB
  EXPECT_EQ(plan.algorithm(DType::f32, last), "direct_eager");
  EXPECT_EQ(plan.algorithm(DType::f32, last + 1), "direct");
}

TEST(Plan, EachTypeHasItsOwnSteps) {
  Profile profile = crossing();
  profile.rows.push_back({"ring", DType::f16, 1 << 10, 1e-6});
  const Plan plan = plan_of(platform("shm", 4), &profile);
  EXPECT_EQ(plan.algorithm(DType::f16, 1 << 20), "ring");
  EXPECT_EQ(plan.steps.at(DType::bf16), plan.steps.at(DType::f32));
  EXPECT_EQ(describe(plan),
            "f32, bf16, f64, i32, i64: direct_eager up to 22.6 KiB, then direct\n"
            "f16: ring\n");
}

TEST(Plan, AnAlgorithmThatDoesNotApplyIsNotChosenHoweverFastItWas) {
  Profile profile = crossing();
  profile.rows.push_back({"native", DType::f32, 1 << 10, 1e-9});
  profile.rows.push_back({"native", DType::f32, 1 << 18, 1e-9});
  EXPECT_THAT(plan_of(platform("shm", 4), &profile).algorithms(), ElementsAre("direct", "direct_eager"));
}

TEST(Plan, AProfileWithoutRowsLeavesItToTheModel) {
  const Profile nothing;
  const Cluster cluster = platform("mpi", 8);
  EXPECT_EQ(plan_of(cluster, &nothing), plan_of(cluster));
}

TEST(Plan, ComesBackFromItsTextAsItWas) {
  const Profile profile = crossing();
  for (const Plan& plan : {plan_of(platform("shm", 4), &profile), plan_of(platform("abci", 64))})
    EXPECT_EQ(parse_plan(print_plan(plan)), plan);
}

TEST(Plan, OneRankHasOneToo) { EXPECT_EQ(plan_of(platform("shm", 1)).steps.at(DType::f32).size(), 1u); }

}  // namespace
}  // namespace paceline
