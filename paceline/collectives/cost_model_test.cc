#include "paceline/collectives/cost_model.h"

#include <gmock/gmock.h>

#include "paceline/collectives/all_reduce.h"
#include "paceline/collectives/node_aware_pipelined.h"
#include "paceline/collectives/platforms.h"
#include "paceline/collectives/ring.h"
#include "paceline/core/error.h"

namespace paceline {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;

Cost cost(const std::string& name, const Cluster& cluster, double bytes) {
  return all_reduce_algorithm(name).cost(cluster, cluster.default_grid(), bytes);
}

TEST(CostModel, CountsTheStepsOfPublishedRuns) {
  const auto torus_steps = [](Grid grid) {
    return all_reduce_algorithm("torus2d").cost(platform("abci", grid.x * grid.y), grid, 51.2e6).steps;
  };
  EXPECT_EQ(torus_steps({32, 32}), 124);
  EXPECT_EQ(torus_steps({64, 32}), 188);
  EXPECT_EQ(torus_steps({64, 34}), 192);
  EXPECT_EQ(torus_steps({72, 48}), 236);
  EXPECT_EQ(torus_steps({64, 64}), 252);
  EXPECT_EQ(cost("ring", platform("abci", 4096), 51.2e6).steps, 8190);
  EXPECT_EQ(cost("recursive_doubling", platform("abci", 4096), 1e3).steps, 12);
  EXPECT_EQ(cost("halving_doubling", platform("abci", 4096), 51.2e6).steps, 24);
  EXPECT_EQ(cost("hierarchical", platform("abci", 4096), 51.2e6).steps, 24);  // 2 + 20 + 2
  EXPECT_EQ(cost("node_aware", platform("abci", 4096), 51.2e6).steps, 26);    // 3 + 20 + 3
}

TEST(CostModel, FoldingCostsTwoSteps) {
  EXPECT_EQ(cost("recursive_doubling", platform("mpi", 8), 1e3).steps, 3);
  EXPECT_EQ(cost("recursive_doubling", platform("mpi", 9), 1e3).steps, 5);
  EXPECT_EQ(cost("halving_doubling", platform("mpi", 9), 1e3).steps, 8);
}

TEST(CostModel, RingTorusAndHalvingDoublingSendTheFewestBytes) {
  for (const char* name : {"ring", "torus2d", "halving_doubling", "direct"})
    EXPECT_THAT(cost(name, platform("shm", 16), 16e6).bytes_per_rank, DoubleNear(30e6, 1)) << name;
  EXPECT_DOUBLE_EQ(cost("recursive_doubling", platform("shm", 16), 16e6).bytes_per_rank, 64e6);
}

TEST(CostModel, NodeAwareSendsTwiceTheBufferOverAHostsLinkAndHierarchicalToo) {
  const Cluster cluster = platform("abci", 64);
  for (const char* name : {"node_aware", "node_aware_pipelined", "hierarchical"})
    EXPECT_THAT(cost(name, cluster, 64e6).network_bytes_per_host, DoubleNear(120e6, 1)) << name;  // 2n(h-1)/h
  EXPECT_THAT(cost("torus2d", cluster, 64e6).network_bytes_per_host, DoubleNear(112e6 + 4 * 14e6, 1));
}

TEST(CostModel, TheTorusTakesAsLongOnAbciAsItWasSimulated) {
  EXPECT_THAT(cost("torus2d", platform("abci", 4096), 51.2e6).seconds, DoubleNear(5.6e-3, 0.15e-3));
}

TEST(CostModel, NodeAwareBeatsTheTorusThreeTimesAtFourMegabytes) {
  const Cluster cluster = platform("abci", 4096);
  EXPECT_GT(cost("torus2d", cluster, 4e6).seconds, 3 * cost("node_aware", cluster, 4e6).seconds);
}

TEST(CostModel, PipeliningComesWithinFifteenPercentOfTheBound) {
  const Cluster cluster = platform("abci", 4096);
  EXPECT_LT(cost("node_aware_pipelined", cluster, 51.2e6).seconds, 1.15 * bound_seconds(cluster, 51.2e6));
  EXPECT_GT(cost("node_aware", cluster, 51.2e6).seconds, 1.15 * bound_seconds(cluster, 51.2e6));
}

TEST(CostModel, NothingIsFasterThanTheBound) {
  for (const std::string& name : platform_names()) {
    for (const int ranks : {2, 3, 8, 12, 64, 96}) {
      for (const int ranks_per_host : {1, 2, 4, ranks}) {
        const Cluster cluster = platform(name, ranks, ranks_per_host);
        for (const AllReduceAlgorithm& algorithm : all_reduce_algorithms()) {
          if (!algorithm.applies(cluster)) continue;
          for (const double bytes : {0.0, 4.0, 1e6, 64e6})
            EXPECT_GE(algorithm.cost(cluster, cluster.default_grid(), bytes).seconds, bound_seconds(cluster, bytes))
                << algorithm.name << " on " << name << ", " << ranks << " ranks, " << ranks_per_host << " per host";
        }
      }
    }
  }
}

TEST(CostModel, OneRankCostsNothing) {
  const Cluster cluster = platform("shm", 1);
  for (const AllReduceAlgorithm& algorithm : all_reduce_algorithms()) {
    const Cost cost = algorithm.cost(cluster, {1, 1}, 1e6);
    EXPECT_EQ(cost.steps, 0) << algorithm.name;
    EXPECT_EQ(cost.seconds, 0) << algorithm.name;
  }
  EXPECT_EQ(bound_seconds(cluster, 1e6), 0);
}

TEST(PipelineSegments, AreAtLeastAMebibyteAndAtMostSixteen) {
  const Cluster cluster = platform("abci", 64);
  EXPECT_EQ(pipeline_segments(cluster, 0), 1);
  EXPECT_EQ(pipeline_segments(cluster, 1 << 20), 1);
  for (const double bytes : {2e6, 5e6, 64e6, 1e9, 1e12}) {
    const int segments = pipeline_segments(cluster, bytes);
    EXPECT_GE(bytes / segments, 1 << 20) << bytes;
    EXPECT_LE(segments, 16) << bytes;
  }
  EXPECT_EQ(pipeline_segments(cluster, 1e12), 16);
}

TEST(Grid, IsTheMostSquareOneWithRowsOfWholeHosts) {
  EXPECT_EQ(choose_grid(1, 1), (Grid{1, 1}));
  EXPECT_EQ(choose_grid(7, 1), (Grid{7, 1}));
  EXPECT_EQ(choose_grid(12, 0), (Grid{4, 3}));
  EXPECT_EQ(choose_grid(12, 12), (Grid{4, 3}));
  EXPECT_EQ(choose_grid(12, 6), (Grid{6, 2}));
  EXPECT_EQ(choose_grid(6, 2), (Grid{2, 3}));
  EXPECT_EQ(choose_grid(2048, 4), (Grid{64, 32}));
  EXPECT_EQ(choose_grid(2176, 4), (Grid{64, 34}));
  EXPECT_EQ(choose_grid(4096, 4), (Grid{64, 64}));
}

TEST(Grid, IsReadFromText) {
  EXPECT_EQ(parse_grid("64x34", 2176), (Grid{64, 34}));
  EXPECT_EQ(to_text({64, 34}), "64x34");
}

TEST(Grid, ATextThatIsNoneIsRefusedWithAnExample) {
  for (const char* text : {"", "x", "8", "8x", "x8", "8x8x1", "-8x8", "8 x 8", "0x64", "99999999999x1"}) {
    try {
      parse_grid(text, 64);
      FAIL() << text;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr("such as 8x8")) << text;
    }
  }
}

TEST(Grid, OneOfOtherSizeIsRefusedWithOneThatFits) {
  try {
    parse_grid("4x4", 12);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "the grid 4x4 has 16 places for 12 ranks; 4x3 would do");
  }
}

TEST(Platforms, HostsOfDifferentSizeAreSaidToDiffer) {
  EXPECT_TRUE(platform("abci", 8).hosts_are_equal());
  EXPECT_FALSE(platform("abci", 7).hosts_are_equal());
  EXPECT_EQ(platform("abci", 7).hosts, 2);
  EXPECT_EQ(platform("abci", 3).ranks_per_host, 3);
}

TEST(Platforms, AnUnknownOneIsRefusedWithTheKnown) {
  try {
    platform("abc", 4);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "there is no platform 'abc'; did you mean 'abci'? (known: abci, shm, gloo, mpi, shm+gloo, shm+mpi)");
  }
}

}  // namespace
}  // namespace paceline
