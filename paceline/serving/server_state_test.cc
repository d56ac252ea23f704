#include "paceline/serving/server_state.h"

#include <gmock/gmock.h>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(ServerState, HasTheArraysOfTheServersOptimizer) {
  const ServerState state({{"weights", {1, 2}}, {"momentum", {3, 4}}});
  ASSERT_EQ(state.state().size(), 1u);
  EXPECT_TRUE(torch::equal(state.state().at("server.momentum"), torch::tensor({3.0f, 4.0f})));
}

TEST(ServerFigures, AreTakenFromTheMetrics) {
  EXPECT_THAT(figures_of(R"({"total": {"accumulated": 6, "dropped": 2}, "k": 3, "staleness": {"0": 3, "4": 1}})"),
              ElementsAre(Pair("accumulated", 6), Pair("dropped", 2), Pair("k", 3), Pair("mean_staleness", 1)));
  EXPECT_TRUE(figures_of("").empty());
  EXPECT_TRUE(figures_of("[1, 2").empty());
}

TEST(ServerFigures, OfEveryShard) {
  const auto of_shards = figures_of_shards(R"({"shards": [{"executed": 3, "bytes_in": 8}, null, {"busy_s": 0.5}]})");
  EXPECT_THAT(of_shards, ElementsAre(Pair("0", ElementsAre(Pair("executed", 3), Pair("bytes_in", 8))),
                                     Pair("1", IsEmpty()), Pair("2", ElementsAre(Pair("busy_s", 0.5)))));
  EXPECT_TRUE(figures_of_shards("{}").empty());
  EXPECT_TRUE(figures_of_shards("[1, 2").empty());
}

}  // namespace
}  // namespace paceline
