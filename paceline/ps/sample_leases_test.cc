#include "paceline/ps/sample_leases.h"

#include <gmock/gmock.h>

#include <vector>

#include "paceline/core/error.h"
#include "paceline/core/random.h"

namespace paceline {
namespace {

// Epochs of 10 samples in batches of 4, 4 and 2, from epoch 2 on of 7 and 3; three shares each.
LeasePlan small_plan() {
  return {.data_size = 10,
          .total_samples = 30,
          .global_batch = BatchPhases{.first = 4, .milestones = {2}, .sizes = {7}},
          .workers = 3};
}

std::vector<SampleLease> all_of(const LeasePlan& plan) {
  SampleLeases leases(plan);
  std::vector<SampleLease> all;
  while (const auto lease = leases.lease(0)) {
    all.push_back(*lease);
    leases.use(0);
  }
  EXPECT_TRUE(leases.all_used());
  return all;
}

TEST(SampleLeasesTest, GlobalBatchesAreCutIntoSharesWithoutEmptyOnes) {
  const std::vector<SampleLease> all = all_of(small_plan());
  ASSERT_EQ(all.size(), 3u + 3 + 2 + 3 + 3 + 2 + 3 + 3);
  EXPECT_EQ(all[0], (SampleLease{.number = 0, .global_count = 4, .share = 0, .range = {.begin = 0, .end = 2}}));
  EXPECT_EQ(all[7], (SampleLease{.number = 7,
                                 .step = 2,
                                 .cursor_samples = 8,
                                 .global_count = 2,
                                 .share = 1,
                                 .range = {.begin = 9, .end = 10}}));
  EXPECT_EQ(all[8], (SampleLease{.number = 8,
                                 .step = 3,
                                 .cursor_samples = 10,
                                 .global_count = 4,
                                 .share = 0,
                                 .range = {.epoch = 1, .begin = 0, .end = 2}}));
  EXPECT_EQ(all.back(), (SampleLease{.number = 21,
                                     .step = 7,
                                     .cursor_samples = 27,
                                     .global_count = 3,
                                     .share = 2,
                                     .range = {.epoch = 2, .begin = 9, .end = 10}}));
}

TEST(SampleLeasesTest, ARunThatGoesOnBeginsAtItsCursor) {
  LeasePlan plan = small_plan();
  plan.begin_samples = 20;
  plan.begin_step = 6;
  const std::vector<SampleLease> all = all_of(plan);
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all[0].number, 0u);
  EXPECT_EQ(all[0].step, 6u);
  EXPECT_EQ(all[0].range, (BatchRange{.epoch = 2, .begin = 0, .end = 3}));
  plan.begin_samples = 30;
  EXPECT_TRUE(all_of(plan).empty());
  EXPECT_TRUE(SampleLeases(plan).all_used());
}

TEST(SampleLeasesTest, WhatWasGivenBackIsLeasedFirstLowestNumberFirst) {
  SampleLeases leases(small_plan());
  for (int worker = 0; worker < 4; ++worker) EXPECT_EQ(leases.lease(worker)->number, static_cast<uint64_t>(worker));
  leases.give_back(3);
  leases.give_back(1);
  leases.give_back(1);
  leases.give_back(17);
  EXPECT_FALSE(leases.held(1));
  EXPECT_EQ(leases.lease(7)->number, 1u);
  EXPECT_EQ(leases.lease(1)->number, 3u);
  EXPECT_EQ(leases.lease(3)->number, 4u);
  EXPECT_EQ(leases.held(7)->number, 1u);
  EXPECT_EQ(leases.used_shares(), 0u);
  leases.use(7);
  EXPECT_EQ(leases.used_shares(), 1u);
  EXPECT_EQ(leases.used_samples(), 1u);
}

TEST(SampleLeasesTest, AWorkerGetsItsOwnShareOfABatchThatIsBegunOrElseTheFirstThatIsLeft) {
  SampleLeases leases(small_plan());
  EXPECT_EQ(leases.earliest(), std::nullopt);
  EXPECT_EQ(leases.lease(2)->number, 2u);
  EXPECT_EQ(leases.lease(7)->number, 0u);
  EXPECT_EQ(leases.lease(0)->number, 1u);
  EXPECT_EQ(leases.lease(1)->number, 4u);  // of the next batch
  EXPECT_EQ(leases.lease(3)->number, 3u);
  EXPECT_EQ(leases.earliest(), 7);
  leases.use(7);
  EXPECT_EQ(leases.earliest(), 0);
  leases.give_back(0);
  EXPECT_EQ(leases.earliest(), 2);
  SampleLeases again(small_plan());
  again.load(leases.save());
  EXPECT_EQ(again.earliest(), 2);
  EXPECT_EQ(again.lease(0)->number, 1u);
  EXPECT_EQ(again.lease(9)->number, 5u);
}

TEST(SampleLeasesTest, AnEndedRunGoesOnWhenItsPlanIsLonger) {
  LeasePlan longer = small_plan(), shorter = longer;
  shorter.total_samples = 15;
  const std::vector<SampleLease> all = all_of(longer);
  SampleLeases ended(shorter);
  ASSERT_TRUE(ended.lease(7));
  uint64_t used = 0;
  for (; ended.lease(0); ++used) ended.use(0);

  SampleLeases again(longer);
  again.load(ended.save());
  again.give_back_all();
  EXPECT_FALSE(again.held(7));
  EXPECT_EQ(again.lease(1), all[0]);  // what worker 7 had
  EXPECT_EQ(again.lease(2), all[used + 1]);
  EXPECT_EQ(again.used_shares(), used);
}

TEST(SampleLeasesTest, WhoHasOneGetsNoOtherAndWhoHasNoneUsesNone) {
  SampleLeases leases(small_plan());
  EXPECT_THROW(leases.use(0), InternalError);
  leases.lease(0);
  EXPECT_THROW(leases.lease(0), InternalError);
}

// Workers lease, use and die at random, and the state is saved and loaded in between.
TEST(SampleLeasesTest, EverySampleOfEveryEpochIsUsedOnce) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const RandomKey key(seed);
    uint64_t drawn = 0;
    const auto below = [&](uint64_t bound) { return key.below(drawn++, bound); };
    const uint64_t data_size = below(40) + 1, epochs = below(3) + 1;
    const LeasePlan plan = {
        .data_size = data_size,
        .total_samples = data_size * epochs,
        .global_batch = BatchPhases{.first = below(50) + 1, .milestones = {1}, .sizes = {below(20) + 1}},
        .workers = static_cast<int>(below(6) + 1)};
    const std::vector<SampleLease> expected = all_of(plan);
    std::vector<int> used(data_size * epochs, 0);
    std::vector<bool> seen(expected.size(), false);
    SampleLeases leases(plan);
    for (int steps = 0; !leases.all_used(); ++steps) {
      ASSERT_LT(steps, 100'000);
      const int worker = static_cast<int>(below(5));
      const auto held = leases.held(worker);
      if (!held) {
        const bool available = leases.available();
        const auto lease = leases.lease(worker);
        ASSERT_EQ(lease.has_value(), available);
        if (lease) {
          ASSERT_EQ(*lease, expected.at(lease->number));
        }
      } else if (below(3) > 0) {
        ASSERT_FALSE(seen.at(held->number));
        seen[held->number] = true;
        for (uint64_t at = held->range.begin; at < held->range.end; ++at) ++used[held->range.epoch * data_size + at];
        leases.use(worker);
      } else {
        leases.give_back(worker);
      }
      if (below(4) == 0) {
        SampleLeases again(plan);
        again.load(leases.save());
        ASSERT_EQ(again.save(), leases.save());
        leases = again;
      }
    }
    EXPECT_THAT(used, testing::Each(1));
    EXPECT_EQ(leases.used_samples(), data_size * epochs);
    EXPECT_EQ(leases.used_shares(), expected.size());
  }
}

TEST(SampleLeasesTest, DamagedStateIsRefused) {
  SampleLeases leases(small_plan());
  leases.lease(0);
  const std::string state = leases.save();
  EXPECT_THROW(leases.load("{}"), DataError);
  EXPECT_THROW(leases.load("what?"), DataError);
  EXPECT_EQ(leases.save(), state);
}

TEST(SampleLeasesTest, SamplesThatThereAreNotAreRefused) {
  const auto with_held = [](const std::string& lease) {
    return R"({"used_samples":0,"used_shares":0,"next":null,"begun":[],"returned":[],"held":[[0,)" + lease + "]]}";
  };
  const std::string end = std::to_string(small_plan().data_size);
  SampleLeases leases(small_plan());
  leases.load(with_held("[0,0,0,1000000,0,0,0," + end + "]"));
  for (const std::string& range : std::vector<std::string>{"0,1" + end, "5,5", "6,5", "-1,5", "0,1e300", "0,true"})
    EXPECT_THROW(leases.load(with_held("[0,0,0,1000000,0,0," + range + "]")), DataError) << range;
  EXPECT_THROW(leases.load(with_held("[0,0,0,4,0,0,0,5]")), DataError);           // more than its batch
  EXPECT_THROW(leases.load(with_held("[0,0,0,9,4294967296,0,0,5]")), DataError);  // the share is beyond an int
  EXPECT_THROW(leases.load(R"({"used_samples":-1,"used_shares":0,"next":null,"held":[]})"), DataError);
}

}  // namespace
}  // namespace paceline
