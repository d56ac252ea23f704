#include "paceline/comm/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Topology, NumbersHostsInTheOrderOfTheirFirstRank) {
  const Topology topology({"b", "b", "a", "b", "a"});
  EXPECT_EQ(topology.ranks(), 5);
  EXPECT_EQ(topology.hosts(), 2);
  EXPECT_EQ(topology.host_of(0), 0);
  EXPECT_EQ(topology.host_of(2), 1);
  EXPECT_THAT(topology.ranks_of(0), ElementsAre(0, 1, 3));
  EXPECT_THAT(topology.ranks_of(1), ElementsAre(2, 4));
}

TEST(Topology, KnowsWhetherHostsAreAlike) {
  EXPECT_EQ(Topology({"a", "b", "a", "b"}).ranks_per_host(), 2);
  EXPECT_EQ(Topology({"a", "b", "a"}).ranks_per_host(), 0);
  EXPECT_EQ(Topology::one_host(3).ranks_per_host(), 3);
}

TEST(Topology, KnowsWhetherTheRanksOfAHostAreConsecutive) {
  EXPECT_TRUE(Topology({"a", "a", "b", "b", "b"}).hosts_are_consecutive());
  EXPECT_TRUE(Topology({"b", "a"}).hosts_are_consecutive());
  EXPECT_FALSE(Topology({"a", "b", "a"}).hosts_are_consecutive());
}

TEST(Topology, OfNoRanksHasNoHosts) {
  const Topology none;
  EXPECT_EQ(none.ranks(), 0);
  EXPECT_EQ(none.hosts(), 0);
  EXPECT_EQ(none.ranks_per_host(), 0);
  EXPECT_TRUE(none.hosts_are_consecutive());
}

TEST(Topology, OfOneHostHoldsAllRanks) {
  const Topology topology = Topology::one_host(3);
  EXPECT_EQ(topology.hosts(), 1);
  EXPECT_THAT(topology.ranks_of(0), ElementsAre(0, 1, 2));
}

TEST(Topology, OfSomeRanksNumbersThemAndTheirHostsAnew) {
  const Topology part = Topology({"a", "a", "b", "c", "c"}).of({4, 1, 3});
  EXPECT_EQ(part.ranks(), 3);
  EXPECT_EQ(part.hosts(), 2);
  EXPECT_THAT(part.ranks_of(0), ElementsAre(0, 2));
  EXPECT_THAT(part.ranks_of(1), ElementsAre(1));
}

TEST(HostIdentity, IsTheSameTwiceAndNotEmpty) {
  EXPECT_THAT(host_identity(), Not(IsEmpty()));
  EXPECT_EQ(host_identity(), host_identity());
  EXPECT_THAT(host_name(), Not(IsEmpty()));
}

}  // namespace
}  // namespace paceline
