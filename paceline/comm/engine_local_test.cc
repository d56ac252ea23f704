#include "paceline/comm/engine_local.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <latch>
#include <numeric>
#include <vector>

namespace paceline {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

// As Each(), but quick for hundreds of thousands of elements.
template <class T>
bool all_are(const std::vector<T>& data, double value) {
  return std::ranges::all_of(data, [&](T element) { return element == static_cast<T>(value); });
}

// The error of each rank, empty for those that had none.
std::vector<std::string> errors_of(int ranks, const LocalOptions& options, const std::function<void(Group&)>& body) {
  std::vector<std::string> errors(ranks);
  run_ranks(ranks, options, [&](Group& group) {
    try {
      body(group);
    } catch (const PeerError& error) {
      errors[group.rank()] = error.what();
    }
  });
  return errors;
}

class LocalEngineTest : public ::testing::TestWithParam<std::tuple<int, int, bool>> {};

TEST_P(LocalEngineTest, EveryRankHoldsTheRootsData) {
  const auto [ranks, count, see_all] = GetParam();
  run_ranks(ranks, {.see_all_memory = see_all}, [&, count = count, ranks = ranks](Group& group) {
    for (int root = 0; root < ranks; ++root) {
      std::vector<float> data(count, static_cast<float>(group.rank()));
      group.broadcast(view(data), root);
      EXPECT_TRUE(all_are(data, root));
    }
    group.barrier();
  });
}

TEST_P(LocalEngineTest, EveryRankGathersAll) {
  const auto [ranks, count, see_all] = GetParam();
  run_ranks(ranks, {.see_all_memory = see_all}, [&, count = count, ranks = ranks](Group& group) {
    std::vector<int32_t> mine(count, group.rank()), all(static_cast<size_t>(count) * ranks, -1);
    group.all_gather(view(mine), view(all));
    for (int peer = 0; peer < ranks; ++peer)
      for (int i = 0; i < count; ++i) ASSERT_EQ(all[static_cast<size_t>(peer) * count + i], peer);
  });
}

TEST_P(LocalEngineTest, PartsOfAnyLengthGoFromAllToAll) {
  const auto [ranks, count, see_all] = GetParam();
  run_ranks(ranks, {.see_all_memory = see_all}, [&, count = count, ranks = ranks](Group& group) {
    auto length = [&](int from, int to) { return static_cast<size_t>(count) * (from + 1) + to; };
    std::vector<std::vector<int64_t>> sent, received;
    std::vector<TensorView> from, to;
    for (int peer = 0; peer < ranks; ++peer) {
      sent.emplace_back(length(group.rank(), peer), 100 * group.rank() + peer);
      received.emplace_back(length(peer, group.rank()), -1);
    }
    for (int peer = 0; peer < ranks; ++peer) {
      from.push_back(view(sent[peer]));
      to.push_back(view(received[peer]));
    }
    group.all_to_all(from, to);
    for (int peer = 0; peer < ranks; ++peer) EXPECT_TRUE(all_are(received[peer], 100 * peer + group.rank()));
  });
}

TEST_P(LocalEngineTest, MessagesBothWaysAtOnceKeepTheirOrder) {
  const auto [ranks, count, see_all] = GetParam();
  if (ranks == 1) return;
  run_ranks(ranks, {.see_all_memory = see_all}, [&, count = count, ranks = ranks](Group& group) {
    const int next = (group.rank() + 1) % ranks, previous = (group.rank() + ranks - 1) % ranks;
    constexpr int kMessages = 20;  // more than a channel has letters
    std::vector<std::vector<float>> sent, received;
    std::vector<Work> works;
    for (int i = 0; i < kMessages; ++i) {
      sent.emplace_back(count + i, static_cast<float>(1000 * group.rank() + i));
      received.emplace_back(count + i);
    }
    for (auto& data : sent) works.push_back(group.send(view(data), next));  // sends first: nobody receives yet
    for (auto& data : received) works.push_back(group.receive(view(data), previous));
    for (Work& work : works) work.wait();
    for (int i = 0; i < kMessages; ++i) EXPECT_TRUE(all_are(received[i], 1000 * previous + i));
  });
}

TEST_P(LocalEngineTest, SplitGroupsWorkOnTheirOwn) {
  const auto [ranks, count, see_all] = GetParam();
  run_ranks(ranks, {.see_all_memory = see_all}, [&, count = count, ranks = ranks](Group& group) {
    for (int round = 0; round < 3; ++round) {
      const std::unique_ptr<Group> part = group.split(group.rank() % 2, -group.rank());
      const int members = (ranks + 1 - group.rank() % 2) / 2;
      ASSERT_EQ(part->size(), members);
      EXPECT_EQ(part->world_ranks()[part->rank()], group.rank());
      EXPECT_EQ(part->rank(), members - 1 - group.rank() / 2) << "ordered by key";
      std::vector<float> data(count, static_cast<float>(group.rank()));
      part->broadcast(view(data), 0);
      EXPECT_TRUE(all_are(data, part->world_ranks()[0]));
    }
    group.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(RanksAndCounts, LocalEngineTest,
                         ::testing::Combine(::testing::Values(1, 2, 3, 5, 8), ::testing::Values(0, 1, 7, 1000, 70'000),
                                            ::testing::Bool()));

TEST(LocalEngine, OneRankIsAGroupToo) {
  const auto group = make_local_group();
  std::vector<float> data = {1, 2, 3};
  group->broadcast(view(data), 0);
  group->barrier();
  EXPECT_EQ(group->split(0, 0)->size(), 1);
  EXPECT_EQ(group->rank(), 0);
  EXPECT_EQ(group->size(), 1);
  EXPECT_EQ(group->engine(), "local");
  EXPECT_THAT(data, ::testing::ElementsAre(1, 2, 3));
}

TEST(LocalEngine, AFailedRankEndsTheOthersAndItsErrorIsTheOneReported) {
  try {
    run_ranks(3, [](Group& group) {
      if (group.rank() == 1) throw DataError("the disk is gone");
      group.barrier();
    });
    FAIL() << "nothing was thrown";
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "the disk is gone");
  }
}

TEST(LocalEngine, AnotherCountIsNamedOnEveryRank) {
  const auto errors = errors_of(3, {}, [](Group& group) {
    std::vector<float> data(group.rank() == 1 ? 3 : 4);
    group.shared_memory()->meet();
    group.perform(Verb::all_reduce, view(data), ReduceOp::sum, -1,
                  [&] { group.shared_memory()->exchange(view(data)); });
  });
  EXPECT_THAT(errors, Each(HasSubstr("all_reduce #1 (sum of 3 f32, 12 bytes)")));
  EXPECT_THAT(errors, Each(HasSubstr("all_reduce #1 (sum of 4 f32, 16 bytes)")));
}

TEST(LocalEngine, AnotherOrderIsNamedOnEveryRank) {
  const auto errors = errors_of(2, {}, [](Group& group) {
    std::vector<float> data(4);
    group.barrier();
    if (group.rank() == 0) group.broadcast(view(data), 1);
    if (group.rank() == 1) group.all_gather(view(data).first(2), view(data));
  });
  EXPECT_THAT(errors, Each(HasSubstr("broadcast #2 (4 f32, 16 bytes, from rank 1)")));
  EXPECT_THAT(errors, Each(HasSubstr("all_gather #2 (2 f32, 8 bytes)")));
}

TEST(LocalEngine, ARankThatLeftIsNamed) {
  const auto errors = errors_of(3, {}, [](Group& group) {
    group.barrier();
    if (group.rank() != 2) group.barrier();
  });
  EXPECT_THAT(errors[0], HasSubstr("barrier #2 in group 'world'"));
  EXPECT_THAT(errors[0], HasSubstr("rank 2"));
  EXPECT_THAT(errors[1], HasSubstr("rank 2"));
  EXPECT_EQ(errors[2], "");
}

TEST(LocalEngine, ASlowRankIsNamedAfterTheTimeOut) {
  std::latch done(1);
  const auto errors = errors_of(2, {.timeout_ms = 300}, [&](Group& group) {
    if (group.rank() == 1) {
      done.wait();  // busy with something else until the other has given up
      return;
    }
    try {
      group.barrier();
    } catch (const PeerError&) {
      done.count_down();
      throw;
    }
  });
  EXPECT_THAT(errors[0], HasSubstr("barrier #1 in group 'world' did not finish in"));
  EXPECT_THAT(errors[0], HasSubstr("rank 1"));
}

TEST(LocalEngine, AMessageThatNobodySendsEndsWithTheTimeOut) {
  std::latch done(1);
  const auto errors = errors_of(2, {.timeout_ms = 300}, [&](Group& group) {
    if (group.rank() == 1) return done.wait();
    std::vector<float> data(4);
    try {
      group.receive(view(data), 1).wait();
    } catch (const PeerError&) {
      done.count_down();
      throw;
    }
  });
  EXPECT_THAT(errors[0], HasSubstr("rank 0: receive (4 f32, 16 bytes, from rank 1) in group 'world' did not finish"));
}

TEST(LocalEngine, AWaitingRankDoesNotBurnACore) {
  std::latch done(1);
  run_ranks(2, {.timeout_ms = 400}, [&](Group& group) {
    if (group.rank() == 1) return done.wait();
    rusage before, after;
    getrusage(RUSAGE_THREAD, &before);
    EXPECT_THROW(group.barrier(), PeerError);
    getrusage(RUSAGE_THREAD, &after);
    done.count_down();
    auto us = [](const timeval& time) { return time.tv_sec * 1'000'000 + time.tv_usec; };
    const auto used_us = us(after.ru_utime) + us(after.ru_stime) - us(before.ru_utime) - us(before.ru_stime);
    EXPECT_LT(used_us, 100'000) << "of 400 ms of waiting";
  });
}

}  // namespace
}  // namespace paceline
