#include "paceline/ps/staging.h"

#include <gmock/gmock.h>

#include <thread>

#include "paceline/core/error.h"
#include "paceline/core/test_folder.h"
#include "paceline/ps/shard.h"

namespace paceline {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::ThrowsMessage;

class StagingTest : public testing::Test {
 protected:
  std::unique_ptr<Shard> open() {
    return std::make_unique<Shard>(folder_.path() / "shard", map_, 0, ServerUpdate{.most_workers = 2},
                                   std::vector<float>(map_.total(), 0.0f));
  }
  TestFolder folder_;
  ShardMap map_{{{"w", 100'000, true}}, 1};
};

TEST_F(StagingTest, APushIsThereWhenAllOfItIs) {
  auto shard = open();
  const std::span<float> place = shard->stage(7, 1);
  ASSERT_EQ(place.size(), 100'000u);
  std::fill_n(place.begin(), 500, 3.0f);
  EXPECT_FALSE(shard->has_staged(7, 1));
  EXPECT_EQ(shard->stage(7, 1).data(), place.data());  // sent again: what is there stays
  EXPECT_EQ(place[499], 3.0f);
  std::ranges::fill(place, 3.0f);
  shard->staged(7, 1);
  EXPECT_TRUE(shard->has_staged(7, 1));
  EXPECT_FALSE(shard->has_staged(7, 2));
  EXPECT_FALSE(shard->has_staged(8, 1));
  shard.reset();
  shard = open();
  EXPECT_TRUE(shard->has_staged(7, 1));
  EXPECT_THAT(shard->stage(7, 1), Each(3.0f));
  shard->stage(7, 2);
  EXPECT_FALSE(shard->has_staged(7, 2));
  EXPECT_FALSE(shard->has_staged(7, 1));
}

TEST_F(StagingTest, WhatACommandWasAboutIsFinished) {
  auto shard = open();
  EXPECT_EQ(shard->finished(0), 0u);
  for (const uint64_t sequence : {1, 2}) {
    shard->stage(0, sequence);
    shard->staged(0, sequence);
    shard->execute({sequence, sequence, {.kind = Decision::Kind::drop, .worker = 0}});
    EXPECT_EQ(shard->finished(0), sequence);
    EXPECT_FALSE(shard->has_staged(0, sequence));
  }
  shard.reset();
  shard = open();
  EXPECT_EQ(shard->finished(0), 2u);
  EXPECT_THAT([&] { shard->stage(0, 2); }, ThrowsMessage<PeerError>(HasSubstr("worker 0 pushes number 2 again")));
  EXPECT_NO_THROW(shard->stage(0, 3));
}

TEST_F(StagingTest, AForgottenWorkersPlaceIsFree) {
  auto shard = open();
  shard->stage(0, 1);
  shard->stage(1, 1);
  shard->staged(1, 1);
  shard->execute({1, 1, {.kind = Decision::Kind::drop, .worker = 1}});
  EXPECT_THAT([&] { shard->stage(2, 1); },
              ThrowsMessage<PeerError>(AllOf(HasSubstr("worker 2"), HasSubstr("all 2 places"))));
  shard->forget(1);
  shard->forget(5);  // was never there
  shard->stage(2, 1);
  EXPECT_EQ(shard->finished(2), 0u);
  EXPECT_EQ(shard->finished(1), 0u);
  shard->staged(2, 1);
  EXPECT_TRUE(shard->has_staged(2, 1));
}

TEST_F(StagingTest, WorkersAreStagedAtTheSameTime) {
  auto shard = open();
  const auto push = [&](int worker) {
    for (uint64_t sequence = 1; sequence <= 20; ++sequence) {
      std::ranges::fill(shard->stage(worker, sequence), static_cast<float>(worker));
      shard->staged(worker, sequence);
    }
  };
  std::thread other(push, 1);
  push(0);
  other.join();
  EXPECT_TRUE(shard->has_staged(0, 20) && shard->has_staged(1, 20));
  EXPECT_THAT(shard->stage(0, 20), Each(0.0f));
  EXPECT_THAT(shard->stage(1, 20), Each(1.0f));
}

}  // namespace
}  // namespace paceline
