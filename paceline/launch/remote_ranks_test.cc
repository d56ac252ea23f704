#include "paceline/launch/remote_ranks.h"

#include <gmock/gmock.h>

#include "paceline/core/error.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RemoteRanks, CallsTheAgentThroughSsh) {
  EXPECT_THAT(agent_command({.program = "/opt/paceline"}, "b"),
              ElementsAre("ssh", "-o", "BatchMode=yes", "b", "/opt/paceline", "launch", "--agent"));
}

TEST(RemoteRanks, QuotesForTheShellThatSshStarts) {
  EXPECT_EQ(agent_command({.program = "/my tools/it's"}, "b").at(4), "'/my tools/it'\\''s'");
  EXPECT_EQ(agent_command({.command = "/usr/bin/ssh", .program = "/a b"}, "b").at(2), "'/a b'");
}

TEST(RemoteRanks, QuotesNothingWhereNoShellIs) {
  EXPECT_THAT(agent_command({.command = "ip netns exec", .program = "/a b"}, "ns1"),
              ElementsAre("ip", "netns", "exec", "ns1", "/a b", "launch", "--agent"));
}

TEST(RemoteRanks, NeedsACommand) { EXPECT_THROW(agent_command({.command = " "}, "b"), UsageError); }

TEST(AddressTowards, IsWhereTheHostReachesThisOne) { EXPECT_EQ(address_towards("127.0.0.1"), "127.0.0.1"); }

TEST(AddressTowards, LeavesOutTheUser) { EXPECT_EQ(address_towards("me@127.0.0.1"), "127.0.0.1"); }

TEST(AddressTowards, AsksForTheAddressWhenTheNameDoesNotResolve) {
  try {
    address_towards("no-such-host.invalid");
    FAIL() << "nothing was thrown";
  } catch (const PeerError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no-such-host.invalid"));
    EXPECT_THAT(error.what(), HasSubstr("--address"));
  }
}

}  // namespace
}  // namespace paceline
