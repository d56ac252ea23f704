#include "paceline/comm/engine_mixed.h"

#include <gmock/gmock.h>

#include "paceline/comm/engine_local.h"
#include "paceline/comm/test_gloo_ranks.h"
#include "paceline/comm/test_group_checks.h"

namespace paceline {
namespace {

// Ranks are threads that think to be on several hosts: on one of them they talk as the local engine's ranks, between
// hosts through Gloo.
void run_mixed_ranks(const std::vector<std::string>& host_of_rank, const std::function<void(Group&)>& body) {
  const Topology topology(host_of_rank);
  LoopbackMesh mesh(topology.ranks());
  run_ranks(topology.ranks(), [&](Group& all) {
    const int rank = all.rank();
    std::unique_ptr<Group> host = all.split(topology.host_of(rank), rank);
    std::unique_ptr<Group> network =
        mesh.make_group(identity_of(rank, topology, "network"), std::make_shared<Monitor>(20'000));
    GroupIdentity identity = identity_of(rank, topology, "mixed");
    identity.engine = "local+gloo";
    const std::unique_ptr<Group> group = make_mixed_group(identity, std::move(host), std::move(network));
    body(*group);
    all.barrier();  // nobody leaves while others still talk
  });
}

class MixedEngineTest : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(MixedEngineTest, DoesWhatEveryGroupDoes) {
  run_mixed_ranks(GetParam(), [](Group& group) {
    for (const size_t count : {0, 1, 7, 100'000}) check_messages(group, count);
    check_order(group);
    check_verbs(group);
    check_splits(group);
    for (const size_t count : {0, 1, 1000}) check_native_all_reduce(group, count);
  });
}
INSTANTIATE_TEST_SUITE_P(Hosts, MixedEngineTest,
                         ::testing::Values(std::vector<std::string>{"a"}, std::vector<std::string>{"a", "a"},
                                           std::vector<std::string>{"a", "b"},
                                           std::vector<std::string>{"a", "a", "b", "b"},
                                           std::vector<std::string>{"a", "b", "a", "b", "b"}));

TEST(MixedEngine, ASplitIsCarriedByWhatItsRanksHaveInCommon) {
  run_mixed_ranks({"a", "a", "b", "b"}, [](Group& group) {
    const auto row = group.split(group.rank() / 2, 0);     // a host each
    const auto column = group.split(group.rank() % 2, 0);  // a rank of each host
    const auto most = group.split(group.rank() == 1 ? 1 : 0, 0);
    EXPECT_EQ(row->engine(), "local");
    EXPECT_NE(row->shared_memory(), nullptr);
    EXPECT_EQ(column->engine(), "gloo");
    EXPECT_EQ(column->shared_memory(), nullptr);
    EXPECT_EQ(most->engine(), group.rank() == 1 ? "local" : "local+gloo");  // rank 1 is alone
    EXPECT_EQ(most->world_ranks(), group.rank() == 1 ? std::vector<int>{1} : (std::vector<int>{0, 2, 3}));
    EXPECT_EQ(row->name(), group.rank() < 2 ? "mixed/0:0" : "mixed/0:1");
    check_verbs(*most);
    check_verbs(*row);
    check_verbs(*column);
  });
}

TEST(MixedEngine, SharesMemoryOnlyWhenAllRanksAreOnOneHost) {
  run_mixed_ranks({"a", "a"}, [](Group& group) {
    ASSERT_NE(group.shared_memory(), nullptr);
    const Memory memory = group.allocate(100);
    EXPECT_TRUE(group.shared_memory()->visible(memory.view(100, DType::u8)));
    EXPECT_TRUE(group.shared_memory()->visible(group.scratch(10, DType::f32)));
  });
  run_mixed_ranks({"a", "b"}, [](Group& group) { EXPECT_EQ(group.shared_memory(), nullptr); });
}

}  // namespace
}  // namespace paceline
