#include "paceline/collectives/device_all_reduce.h"

#include <gmock/gmock.h>

#include "paceline/collectives/test_host_communicator.h"
#include "paceline/comm/engine_local.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Topology hosts_of(const std::vector<int>& ranks) {
  std::vector<std::string> host_of_rank;
  for (size_t host = 0; host < ranks.size(); ++host)
    for (int i = 0; i < ranks[host]; ++i) host_of_rank.push_back(fmt::format("host{}", host));
  return Topology(host_of_rank);
}

std::string refusal(const std::string& name, const Topology& topology) {
  try {
    choose_device_all_reduce(name, topology);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(DeviceAllReduceChoice, HybridIsNativeUnlessHostsAreEqual) {
  EXPECT_EQ(choose_device_all_reduce("hybrid", Topology::one_host(4)).algorithm, "native");
  EXPECT_EQ(choose_device_all_reduce("hybrid", hosts_of({3, 1})).algorithm, "native");
  EXPECT_EQ(choose_device_all_reduce("hybrid", hosts_of({1, 1})).algorithm, "native");
  EXPECT_EQ(choose_device_all_reduce("hybrid", hosts_of({2, 2, 2})),
            (DeviceAllReduceChoice{"hierarchical", {.x = 2, .y = 3}}));
}

TEST(DeviceAllReduceChoice, TheTorusHasTheGridThatWasAskedFor) {
  EXPECT_EQ(choose_device_all_reduce("torus2d", Topology::one_host(12)).grid, choose_grid(12, 12));
  EXPECT_EQ(choose_device_all_reduce("torus2d", Topology::one_host(6), Grid{.x = 2, .y = 3}).grid,
            (Grid{.x = 2, .y = 3}));
}

TEST(DeviceAllReduceChoice, RefusalsSayWhatIsPossible) {
  for (const char* name : {"ring", "direct", "node_aware", "halving_doubling"})
    EXPECT_THAT(refusal(name, Topology::one_host(4)),
                AllOf(HasSubstr(name), HasSubstr("hybrid, native, torus2d and hierarchical")));
  EXPECT_THAT(refusal("hierarchical", Topology::one_host(4)), HasSubstr("here are 4 ranks on 1 host;"));
  EXPECT_THAT(refusal("hierarchical", hosts_of({2, 1})), HasSubstr("equally many ranks"));
  EXPECT_THAT(refusal("natve", Topology::one_host(4)), HasSubstr("native"));
}

TEST(DeviceAllReduceChoice, SurvivesThePlanThatARunKeeps) {
  const DeviceAllReduceChoice choice = {"torus2d", {.x = 3, .y = 2}};
  EXPECT_EQ(choice_of(parse_plan(print_plan(plan_of(choice)))), choice);
}

TEST(DeviceAllReduceChoice, LargeBuffersAndNetworksTakeLonger) {
  const Topology near = Topology::one_host(4), far = hosts_of({2, 2});
  EXPECT_GT(device_all_reduce_seconds(near, 2e6), device_all_reduce_seconds(near, 1e6));
  EXPECT_GT(device_all_reduce_seconds(far, 1e6), device_all_reduce_seconds(near, 1e6));
}

TEST(GridParts, CoverEveryElementOnce) {
  for (size_t count = 0; count < 50; ++count)
    for (int columns = 1; columns < 9; ++columns) {
      const GridParts parts = grid_parts(count, columns);
      EXPECT_EQ(parts.part_count * static_cast<size_t>(columns), parts.rest_begin);
      EXPECT_EQ(parts.rest_begin + parts.rest_count, count);
      EXPECT_LT(parts.rest_count, static_cast<size_t>(columns));
    }
}

TEST(DeviceAllReduce, EveryRankHoldsTheSumOnEveryGrid) {
  for (int ranks = 1; ranks <= 6; ++ranks)
    for (int x = 1; x <= ranks; ++x) {
      if (ranks % x != 0) continue;
      run_ranks(ranks, [&](Group& group) {
        const auto whole = HostCommunicator::over(group);
        DeviceAllReduce all_reduce(group, *whole, {"torus2d", {.x = x, .y = ranks / x}});
        for (const size_t count : {0, 1, 2, 5, 7, 12, 1000, 1003}) {
          std::vector<int64_t> data(count);
          for (size_t i = 0; i < count; ++i) data[i] = static_cast<int64_t>(i * 10) + group.rank();
          all_reduce.run(view(data), ReduceOp::sum);
          for (size_t i = 0; i < count; ++i)
            ASSERT_EQ(data[i], static_cast<int64_t>(i * 10) * ranks + ranks * (ranks - 1) / 2)
                << ranks << " ranks, rows of " << x << ", element " << i << " of " << count;
          all_reduce.run(view(data), ReduceOp::max);
        }
      });
    }
}

TEST(DeviceAllReduce, SumsThePartThroughRowsAndTheRestAtOnce) {
  run_ranks(4, [](Group& group) {
    const auto whole = HostCommunicator::over(group);
    DeviceAllReduce native(group, *whole, {"native", {.x = 4, .y = 1}});
    DeviceAllReduce torus(group, *whole, {"torus2d", {.x = 2, .y = 2}});
    std::vector<float> data(7, 1);
    torus.run(view(data), ReduceOp::sum);
    ASSERT_EQ(whole->calls().size(), 1u);  // of the whole: the seventh
    EXPECT_EQ(whole->calls()[0], std::pair(Verb::all_reduce, size_t{1}));
    native.run(view(data), ReduceOp::sum);
    EXPECT_EQ(whole->calls().back(), std::pair(Verb::all_reduce, size_t{7}));
    EXPECT_THAT(data, ::testing::Each(16));
  });
}

// Ranks that alternate between two hosts: rows are hosts all the same, so the column has one rank of each.
TEST(DeviceAllReduce, RowsHoldWholeHosts) {
  LocalOptions options;
  options.topology = Topology({"a", "b", "a", "b"});
  run_ranks(4, options, [](Group& group) {
    const auto whole = HostCommunicator::over(group);
    const DeviceAllReduceChoice choice = choose_device_all_reduce("hybrid", group.topology());
    EXPECT_EQ(choice.algorithm, "hierarchical");
    DeviceAllReduce all_reduce(group, *whole, choice);
    std::vector<int32_t> data = {group.rank(), 1, 2, 3, 4};
    all_reduce.run(view(data), ReduceOp::sum);
    EXPECT_THAT(data, ::testing::ElementsAre(6, 4, 8, 12, 16));
  });
}

TEST(DeviceCommunicator, RefusesViewsThatDoNotFit) {
  run_ranks(2, [](Group& group) {
    const auto whole = HostCommunicator::over(group);
    std::vector<float> three(3), two(2);
    EXPECT_THROW(whole->all_gather(view(two), view(three)), InternalError);
    EXPECT_THROW(whole->reduce_scatter(view(three), view(two), ReduceOp::sum), InternalError);
    EXPECT_THROW(whole->broadcast(view(two), 2), InternalError);
    EXPECT_THROW(whole->send(view(two), group.rank()), InternalError);
  });
}

}  // namespace
}  // namespace paceline
