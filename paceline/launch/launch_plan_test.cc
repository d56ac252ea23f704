#include "paceline/launch/launch_plan.h"

#include <gmock/gmock.h>

#include "paceline/core/error.h"

namespace paceline {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

std::string error_of(int ranks, const std::string& hosts) {
  try {
    plan_hosts(ranks, hosts, "here");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(LaunchPlan, PutsAllRanksOnThisHost) {
  const auto hosts = plan_hosts(4, "", "here");
  ASSERT_EQ(hosts.size(), 1);
  EXPECT_TRUE(hosts[0].here);
  EXPECT_EQ(rank_count(hosts), 4);
}

TEST(LaunchPlan, GivesHostsTheirRanksInOrder) {
  const auto hosts = plan_hosts(0, "a:4,b,here:2", "here");
  ASSERT_EQ(hosts.size(), 3);
  EXPECT_EQ(rank_count(hosts), 7);
  EXPECT_EQ(hosts[1].first_rank, 4);
  EXPECT_EQ(hosts[1].ranks, 1);
  EXPECT_FALSE(hosts[1].here);
  EXPECT_TRUE(hosts[2].here);
  EXPECT_EQ(host_of(hosts, 3).name, "a");
  EXPECT_EQ(host_of(hosts, 4).name, "b");
  EXPECT_EQ(host_of(hosts, 6).name, "here");
}

TEST(LaunchPlan, KnowsThisHostByItsNames) {
  for (const char* name : {"localhost", "127.0.0.1", "node1", "node1.cluster"})
    EXPECT_TRUE(plan_hosts(0, name, "node1.cluster").front().here) << name;
  for (const char* name : {"node", "node11", "cluster"})
    EXPECT_FALSE(plan_hosts(0, name, "node1.cluster").front().here) << name;
}

TEST(LaunchPlan, TakesAddressesWithColonsInBrackets) {
  const auto hosts = plan_hosts(3, "[fe80::1]:2,[fe80::2]", "here");
  EXPECT_EQ(hosts[0].name, "fe80::1");
  EXPECT_EQ(hosts[0].ranks, 2);
  EXPECT_EQ(hosts[1].name, "fe80::2");
}

TEST(LaunchPlan, RefusesWhatMakesNoSense) {
  EXPECT_THAT(error_of(0, ""), HasSubstr("-n N"));
  EXPECT_THAT(error_of(-1, ""), HasSubstr("-n N"));
  EXPECT_THAT(error_of(5, "a:2,b:2"), HasSubstr("-n says 5 ranks, but --hosts a:2,b:2 makes 4"));
  for (const char* hosts : {"a:0", "a:-1", "a:x", "a:", "a:2x"})
    EXPECT_THAT(error_of(0, hosts), HasSubstr("number of ranks"));
  EXPECT_THAT(error_of(0, "a,,b"), HasSubstr("names no host"));
  EXPECT_THAT(error_of(0, ":3"), HasSubstr("names no host"));
  EXPECT_THAT(error_of(0, "-oProxyCommand=x"), HasSubstr("looks like an option"));
  EXPECT_THAT(error_of(0, "a:1,a:2"), HasSubstr("a second time"));
  EXPECT_THAT(error_of(0, "localhost,here"), HasSubstr("a second time"));
}

TEST(LaunchPlan, TellsEachRankWhoItIs) {
  const PlannedHost host = {.name = "b", .first_rank = 4, .ranks = 3};
  EXPECT_THAT(rank_environment(host, 5, 8, "10.0.0.1", 4000),
              ElementsAre("PACELINE_RANK=5", "PACELINE_SIZE=8", "PACELINE_LOCAL_RANK=1", "PACELINE_LOCAL_SIZE=3",
                          "PACELINE_STORE=10.0.0.1:4000"));
  EXPECT_THAT(rank_environment(host, 4, 8, "fe80::1", 4000), Contains("PACELINE_STORE=[fe80::1]:4000"));
}

TEST(LaunchPlan, TellsAllRanksWhatWasAskedFor) {
  EXPECT_THAT(common_environment({.job = "j", .secret = "s", .engine = "shm", .timeout_s = 2.5}),
              IsSupersetOf({"PACELINE_JOB=j", "PACELINE_SECRET=s", "PACELINE_GENERATION=0", "PACELINE_ENGINE=shm",
                            "PACELINE_TIMEOUT=2.5"}));
  EXPECT_THAT(common_environment({.job = "j", .secret = "s"}), Not(Contains(HasSubstr("ENGINE"))));
  EXPECT_THAT(common_environment({.job = "j", .secret = "s"}), Not(Contains(HasSubstr("TIMEOUT"))));
}

}  // namespace
}  // namespace paceline
