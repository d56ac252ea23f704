#include "paceline/rendezvous/identity.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "paceline/core/error.h"

namespace paceline {
namespace {

using Map = std::map<std::string, std::string>;

Identity identity_of(const Map& variables) {
  return find_identity([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string error_of(const Map& variables) {
  try {
    identity_of(variables);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

Map with(Map variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}
Map without(Map variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

const Map kLaunch = {{"PACELINE_RANK", "5"},
                     {"PACELINE_SIZE", "8"},
                     {"PACELINE_LOCAL_RANK", "1"},
                     {"PACELINE_LOCAL_SIZE", "4"},
                     {"PACELINE_STORE", "10.0.0.1:4000"},
                     {"PACELINE_JOB", "j12"}};
const Map kMpirun = {{"OMPI_COMM_WORLD_RANK", "2"},
                     {"OMPI_COMM_WORLD_SIZE", "3"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                     {"OMPI_MCA_ess_base_jobid", "1990393857"}};
const Map kTorchrun = {{"RANK", "0"},
                       {"WORLD_SIZE", "4"},
                       {"LOCAL_RANK", "0"},
                       {"LOCAL_WORLD_SIZE", "2"},
                       {"MASTER_ADDR", "node1"},
                       {"MASTER_PORT", "29500"}};
const Map kSrun = {{"SLURM_PROCID", "6"},
                   {"SLURM_NTASKS", "7"},
                   {"SLURM_LOCALID", "2"},
                   {"SLURM_NODEID", "1"},
                   {"SLURM_JOB_ID", "42"},
                   {"SLURM_STEP_ID", "3"},
                   {"SLURM_JOB_NODELIST", "node[03-04]"},
                   {"SLURM_STEP_TASKS_PER_NODE", "4,3"}};

TEST(Identity, WithoutALauncherIsOneRankAlone) {
  const Identity identity = identity_of({{"PATH", "/bin"}});
  EXPECT_EQ(identity.starter, Identity::Starter::alone);
  EXPECT_EQ(identity.rank, 0);
  EXPECT_EQ(identity.size, 1);
}

TEST(Identity, OfPacelineLaunch) {
  const Identity identity = identity_of(kLaunch);
  EXPECT_EQ(identity.starter, Identity::Starter::paceline);
  EXPECT_EQ(identity.rank, 5);
  EXPECT_EQ(identity.size, 8);
  EXPECT_EQ(identity.local_rank, 1);
  EXPECT_EQ(identity.local_size, 4);
  EXPECT_EQ(identity.generation, 0U);
  EXPECT_EQ(identity.job, "j12");
  EXPECT_EQ(identity.store_host, "10.0.0.1");
  EXPECT_EQ(identity.store_port, 4000);
  EXPECT_FALSE(identity.store_is_ours);
  EXPECT_EQ(identity.engine, "");
}

TEST(Identity, GenerationAndEngineAreReadWhereTheyAreSet) {
  const Identity identity = identity_of(with(with(kLaunch, "PACELINE_GENERATION", "3"), "PACELINE_ENGINE", "gloo"));
  EXPECT_EQ(identity.generation, 3U);
  EXPECT_EQ(identity.engine, "gloo");
}

TEST(Identity, TheStoreMayHaveAnIpv6Address) {
  const Identity identity = identity_of(with(kLaunch, "PACELINE_STORE", "[::1]:65535"));
  EXPECT_EQ(identity.store_host, "::1");
  EXPECT_EQ(identity.store_port, 65535);
}

TEST(Identity, TheJobBecomesPartOfAFileName) {
  EXPECT_EQ(identity_of(with(kLaunch, "PACELINE_JOB", "../a b@1")).job, "..-a-b-1");
}

TEST(Identity, OfMpirun) {
  const Identity identity = identity_of(kMpirun);
  EXPECT_EQ(identity.starter, Identity::Starter::mpirun);
  EXPECT_EQ(identity.rank, 2);
  EXPECT_EQ(identity.size, 3);
  EXPECT_EQ(identity.job, "mpi-1990393857");
  EXPECT_EQ(identity.store_host, "");
  EXPECT_TRUE(identity.store_is_ours);
  const Map pmix = with(without(kMpirun, "OMPI_MCA_ess_base_jobid"), "PMIX_NAMESPACE", "prterun-a-7@1");
  EXPECT_EQ(identity_of(pmix).job, "mpi-prterun-a-7-1");
}

TEST(Identity, OfTorchrun) {
  const Identity identity = identity_of(kTorchrun);
  EXPECT_EQ(identity.starter, Identity::Starter::torchrun);
  EXPECT_EQ(identity.size, 4);
  EXPECT_EQ(identity.local_size, 2);
  EXPECT_EQ(identity.store_host, "node1");
  EXPECT_EQ(identity.store_port, 29500);
  EXPECT_TRUE(identity.store_is_ours);
  EXPECT_EQ(identity.job, "torch-run-29500");
}

TEST(Identity, LeavesThePortToTorchrunWhereItListensItself) {
  const Map elastic = with(with(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE", "True"), "TORCHELASTIC_RUN_ID", "none");
  EXPECT_EQ(identity_of(elastic).store_port, 29501);
  EXPECT_EQ(identity_of(elastic).job, "torch-none-29500");
  EXPECT_EQ(identity_of(with(elastic, "PACELINE_PORT", "777")).store_port, 777);
  EXPECT_EQ(identity_of(with(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE", "False")).store_port, 29500);
  EXPECT_EQ(identity_of(with(with(elastic, "MASTER_PORT", "65535"), "PACELINE_PORT", "777")).store_port, 777);
  EXPECT_EQ(error_of(with(elastic, "MASTER_PORT", "65535")),
            "MASTER_PORT is \"65535\", where torchrun itself listens, and there is no port after it; choose one with "
            "PACELINE_PORT");
}

TEST(Identity, TheFourVariablesOfTorchrunAreEnough) {
  const Identity identity = identity_of(without(without(kTorchrun, "LOCAL_RANK"), "LOCAL_WORLD_SIZE"));
  EXPECT_EQ(identity.local_rank, 0);
  EXPECT_EQ(identity.local_size, 1);
}

TEST(Identity, OfSrun) {
  const Identity identity = identity_of(kSrun);
  EXPECT_EQ(identity.starter, Identity::Starter::slurm);
  EXPECT_EQ(identity.rank, 6);
  EXPECT_EQ(identity.size, 7);
  EXPECT_EQ(identity.local_rank, 2);
  EXPECT_EQ(identity.local_size, 3);
  EXPECT_EQ(identity.store_host, "node03");
  EXPECT_EQ(identity.store_port, 20000 + 42 * 101 + 3);
  EXPECT_TRUE(identity.store_is_ours);
  EXPECT_EQ(identity.job, "slurm-42.3");
  EXPECT_EQ(identity_of(with(kSrun, "SLURM_STEP_NODELIST", "node04")).store_host, "node04");
  EXPECT_EQ(identity_of(with(kSrun, "PACELINE_PORT", "9")).store_port, 9);
}

TEST(Identity, SrunsPortStaysInItsRange) {
  for (const char* job : {"0", "197", "396", "4294967295"}) {
    const Identity identity = identity_of(with(kSrun, "SLURM_JOB_ID", job));
    EXPECT_GE(identity.store_port, 20000);
    EXPECT_LE(identity.store_port, 59999);
  }
}

TEST(Identity, KnowsHowManyTasksANodeOfSlurmHas) {
  const auto local_size = [](const std::string& list, const std::string& node) {
    return identity_of(with(with(kSrun, "SLURM_STEP_TASKS_PER_NODE", list), "SLURM_NODEID", node)).local_size;
  };
  EXPECT_EQ(local_size("4(x2),3", "0"), 4);
  EXPECT_EQ(local_size("4(x2),3", "1"), 4);
  EXPECT_EQ(local_size("4(x2),3", "2"), 3);
  for (const char* senseless : {"", "x", "4(", "4(x", "4(x2", ",", "4(x0),5(x0)", "5"})
    EXPECT_EQ(local_size(senseless, "1"), 3) << senseless;  // what the local rank says
}

TEST(Identity, ABatchScriptOfSlurmIsAlone) {
  EXPECT_EQ(identity_of(without(kSrun, "SLURM_NTASKS")).starter, Identity::Starter::alone);
  EXPECT_EQ(identity_of(with(kSrun, "SLURM_NTASKS", "1")).starter, Identity::Starter::alone);
  EXPECT_EQ(identity_of(without(kSrun, "SLURM_PROCID")).starter, Identity::Starter::alone);
  EXPECT_EQ(identity_of(without(kSrun, "SLURM_STEP_ID")).starter, Identity::Starter::alone);
  EXPECT_EQ(identity_of(with(kSrun, "SLURM_STEP_ID", "4294967291")).starter, Identity::Starter::alone);
}

TEST(Identity, TheInnermostLauncherCounts) {
  Map all = kSrun;
  all.insert(kTorchrun.begin(), kTorchrun.end());
  EXPECT_EQ(identity_of(all).starter, Identity::Starter::torchrun);
  all.insert(kMpirun.begin(), kMpirun.end());
  EXPECT_EQ(identity_of(all).starter, Identity::Starter::mpirun);
  all.insert(kLaunch.begin(), kLaunch.end());
  EXPECT_EQ(identity_of(all).starter, Identity::Starter::paceline);
}

TEST(Identity, ErrorsNameTheVariableAndItsValue) {
  EXPECT_EQ(error_of(with(kLaunch, "PACELINE_RANK", "8")),
            "PACELINE_RANK is \"8\": it must be a whole number from 0 to 7");
  EXPECT_EQ(error_of(with(kLaunch, "PACELINE_RANK", "1x")),
            "PACELINE_RANK is \"1x\": it must be a whole number from 0 to 7");
  EXPECT_EQ(error_of(with(kLaunch, "PACELINE_SIZE", "0")),
            "PACELINE_SIZE is \"0\": it must be a whole number from 1 to 1000000");
  EXPECT_EQ(error_of(with(kLaunch, "PACELINE_LOCAL_SIZE", "1")),
            "PACELINE_LOCAL_SIZE is \"1\": it must be a whole number from 2 to 8");
  EXPECT_EQ(error_of(with(kLaunch, "PACELINE_GENERATION", "-1")),
            "PACELINE_GENERATION is \"-1\": it must be a whole number from 0 to 18446744073709551615");
  EXPECT_EQ(error_of(with(kTorchrun, "MASTER_PORT", "65536")),
            "MASTER_PORT is \"65536\": it must be a whole number from 1 to 65535");
  EXPECT_EQ(error_of(with(kSrun, "SLURM_PROCID", "7")), "SLURM_PROCID is \"7\": it must be a whole number from 0 to 6");
}

TEST(Identity, ErrorsNameWhatIsMissing) {
  EXPECT_EQ(error_of(without(kLaunch, "PACELINE_SIZE")),
            "PACELINE_SIZE is not set, though PACELINE_RANK is: whoever starts the ranks must set both (unset "
            "PACELINE_RANK to run alone)");
  EXPECT_EQ(error_of({{"RANK", "0"}}),
            "WORLD_SIZE is not set, though RANK is: whoever starts the ranks must set both (unset RANK to run alone)");
  for (const char* name : {"PACELINE_STORE", "PACELINE_JOB"})
    EXPECT_TRUE(error_of(without(kLaunch, name)).starts_with(fmt::format("{} is not set", name)));
}

TEST(Identity, AStoreAddressThatMakesNoSenseIsNamed) {
  for (const char* address :
       {"host", "host:", ":80", "host:0", "host:65536", "::1:80", "[::1]", "[]:80", "a:b:80", "h:8x"})
    EXPECT_EQ(error_of(with(kLaunch, "PACELINE_STORE", address)),
              fmt::format("PACELINE_STORE is \"{}\": it must be HOST:PORT or [ADDRESS]:PORT", address));
}

TEST(FirstSlurmHost, IsFoundInEveryFormOfAList) {
  EXPECT_EQ(first_slurm_host("login"), "login");
  EXPECT_EQ(first_slurm_host("login,node[1-2]"), "login");
  EXPECT_EQ(first_slurm_host("node[03-07,9],login"), "node03");
  EXPECT_EQ(first_slurm_host("node[9,03-07]"), "node9");
  EXPECT_EQ(first_slurm_host("node[007]"), "node007");
  EXPECT_EQ(first_slurm_host("rack[1-2]node[3-4]-ib,x"), "rack1node3-ib");
}

TEST(FirstSlurmHost, NamesAListThatIsNone) {
  for (const char* list : {"", ",a", "node[", "node[]", "node[3-4"})
    EXPECT_THROW(first_slurm_host(list), UsageError) << list;
  try {
    first_slurm_host("node[3-4");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "SLURM's node list is \"node[3-4\": that is no list of hosts");
  }
}

TEST(ProcessEnvironment, ReadsThisProcess) {
  EXPECT_TRUE(process_environment()("PATH").has_value());
  EXPECT_FALSE(process_environment()("PACELINE_NOT_SET_BY_ANYBODY").has_value());
}

}  // namespace
}  // namespace paceline
