#include "paceline/comm/device_sharing.h"

#include <gmock/gmock.h>

#include "paceline/core/error.h"

namespace paceline {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

const Topology kTwoHosts({"a", "b", "a", "b", "b"});

TEST(DeviceSharing, RanksOfAHostTakeItsDevicesInTurn) {
  EXPECT_EQ(device_of_rank(Topology::one_host(4), 3, 8), 3);
  EXPECT_EQ(device_of_rank(Topology::one_host(4), 3, 2), 1);
  EXPECT_EQ(device_of_rank(Topology::one_host(4), 2, 1), 0);
  const int expected[] = {0, 0, 1, 1, 2};
  for (int rank = 0; rank < 5; ++rank) EXPECT_EQ(device_of_rank(kTwoHosts, rank, 4), expected[rank]) << rank;
  EXPECT_THROW(device_of_rank(kTwoHosts, 0, 0), InternalError);
}

TEST(DeviceSharing, IsFoundWithinAHostOnly) {
  EXPECT_TRUE(ranks_share_devices(Topology::one_host(3), {"0:1", "0:2", "0:1"}));
  EXPECT_FALSE(ranks_share_devices(Topology::one_host(3), {"0:1", "0:2", "0:3"}));
  EXPECT_FALSE(ranks_share_devices(Topology({"a", "b"}), {"0:1", "0:1"}));
  EXPECT_TRUE(ranks_share_devices(kTwoHosts, {"0:1", "0:1", "0:2", "0:2", "0:1"}));
  EXPECT_FALSE(ranks_share_devices(Topology::one_host(1), {"0:1"}));
}

TEST(DeviceSharing, MakesEachRankAHostOfItsOwn) {
  const auto first = environment_for_nccl(Topology::one_host(2), 0, /*share_devices=*/true);
  const auto second = environment_for_nccl(Topology::one_host(2), 1, /*share_devices=*/true);
  EXPECT_THAT(first, Contains(Pair("NCCL_HOSTID", "paceline-rank-0")));
  EXPECT_THAT(second, Contains(Pair("NCCL_HOSTID", "paceline-rank-1")));
  EXPECT_THAT(first, Contains(Pair("NCCL_SOCKET_IFNAME", "lo")));
  EXPECT_THAT(first, Contains(Pair("NCCL_IB_DISABLE", "1")));
}

TEST(DeviceSharing, RanksOfOneHostListenOnLoopbackAlone) {
  EXPECT_THAT(environment_for_nccl(Topology::one_host(2), 1, /*share_devices=*/false),
              ElementsAre(Pair("NCCL_SOCKET_IFNAME", "lo")));
  EXPECT_THAT(environment_for_nccl(kTwoHosts, 1, /*share_devices=*/false), IsEmpty());
}

TEST(DeviceSharing, LeavesTheNetworkBetweenHostsAlone) {
  const auto variables = environment_for_nccl(kTwoHosts, 4, /*share_devices=*/true);
  EXPECT_THAT(variables, Contains(Pair("NCCL_HOSTID", "paceline-rank-4")));
  EXPECT_THAT(variables, Not(Contains(Key("NCCL_SOCKET_IFNAME"))));
  EXPECT_THAT(variables, Not(Contains(Key("NCCL_IB_DISABLE"))));
}

}  // namespace
}  // namespace paceline
