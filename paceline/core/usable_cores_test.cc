#include "paceline/core/usable_cores.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "paceline/core/test_folder.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

Variable environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

// Threads of a process alone, of 8 cores, with these variables and the files below `root`.
int threads(std::map<std::string, std::string> variables, const fs::path& root = "/nowhere") {
  const UsableCores mine = usable_cores(environment(std::move(variables)), {0, 1, 2, 3, 4, 5, 6, 7}, root);
  return threads_of(mine, {{mine}});
}

TEST(UsableCores, AreThoseOfTheAffinityWhereNothingElseIsSaid) {
  EXPECT_EQ(threads({}), 8);
  const UsableCores one = usable_cores(environment({}), {5}, "/nowhere");
  EXPECT_EQ(threads_of(one, {{one}}), 1);
}

TEST(UsableCores, HeedTheNumberOfThreadsOfOpenMP) {
  EXPECT_EQ(threads({{"OMP_NUM_THREADS", "3"}}), 3);
  EXPECT_EQ(threads({{"OMP_NUM_THREADS", "4,2"}}), 4);
  EXPECT_EQ(threads({{"OMP_NUM_THREADS", "100"}}), 8);  // never more than there are cores
  for (const char* nonsense : {"", "0", "-2", "many", "3x"})
    EXPECT_EQ(threads({{"OMP_NUM_THREADS", nonsense}}), 8) << nonsense;
}

TEST(UsableCores, HeedTheCoresOfASlurmTask) {
  EXPECT_EQ(threads({{"SLURM_CPUS_PER_TASK", "2"}}), 2);
  EXPECT_EQ(threads({{"SLURM_CPUS_PER_TASK", "2"}, {"SLURM_NTASKS", "6"}, {"SLURM_NNODES", "2"}}), 6);
  EXPECT_EQ(
      threads({{"SLURM_CPUS_PER_TASK", "2"}, {"SLURM_NTASKS", "6"}, {"SLURM_PROCID", "1"}, {"SLURM_STEP_ID", "0"}}), 2);
  // The batch script is a special step with SLURM_PROCID.
  EXPECT_EQ(threads({{"SLURM_CPUS_PER_TASK", "2"},
                     {"SLURM_NTASKS", "3"},
                     {"SLURM_PROCID", "0"},
                     {"SLURM_STEP_ID", "4294967291"}}),
            6);
}

TEST(UsableCores, HeedTheQuotaOfACgroup) {
  const TestFolder folder;
  const fs::path groups = folder.path() / "sys/fs/cgroup";
  write(folder.path() / "proc/self/cgroup", "0::/a.slice/b.scope\n");
  write(groups / "a.slice/b.scope/cpu.max", "max 100000\n");
  EXPECT_EQ(threads({}, folder.path()), 8);
  write(groups / "a.slice/b.scope/cpu.max", "350000 100000\n");
  EXPECT_EQ(threads({}, folder.path()), 3);
  write(groups / "a.slice/cpu.max", "200000 100000\n");  // of a group around it
  EXPECT_EQ(threads({}, folder.path()), 2);
  write(groups / "a.slice/b.scope/cpu.max", "50000 100000\n");
  EXPECT_EQ(threads({}, folder.path()), 1);
}

TEST(UsableCores, HeedTheQuotaOfAnOldCgroup) {
  for (const std::string mount : {"cpu", "cpu,cpuacct"}) {
    const TestFolder folder;
    const fs::path groups = folder.path() / "sys/fs/cgroup" / mount;
    write(folder.path() / "proc/self/cgroup", "5:memory:/m\n4:" + mount + ":/docker/1\n0::/\n");
    write(groups / "docker/1/cpu.cfs_quota_us", "-1\n");
    write(groups / "docker/1/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(threads({}, folder.path()), 8);
    write(groups / "docker/1/cpu.cfs_quota_us", "400000\n");
    EXPECT_EQ(threads({}, folder.path()), 4);
  }
}

TEST(UsableCores, AContainerThatSeesOnlyItsOwnGroupHasItsQuota) {
  const TestFolder folder;
  write(folder.path() / "proc/self/cgroup", "0::/docker/1\n");
  write(folder.path() / "sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(threads({}, folder.path()), 2);
}

TEST(UsableCores, RanksShareWhatIsForAllOfThem) {
  const UsableCores all_of_eight = usable_cores(environment({}), {0, 1, 2, 3, 4, 5, 6, 7}, "/nowhere");
  EXPECT_EQ(threads_of(all_of_eight, std::vector(4, all_of_eight)), 2);
  EXPECT_EQ(threads_of(all_of_eight, std::vector(64, all_of_eight)), 1);

  const UsableCores left = usable_cores(environment({}), {0, 1, 2, 3}, "/nowhere");
  const UsableCores right = usable_cores(environment({}), {4, 5, 6, 7}, "/nowhere");
  EXPECT_EQ(threads_of(left, {{left, right}}), 4);  // each has its own cores

  UsableCores limited = all_of_eight;
  limited.quota = {.of = 17, .millicores = 5000};
  EXPECT_EQ(threads_of(limited, {{limited, limited}}), 2);
  UsableCores elsewhere = limited;
  elsewhere.quota.of = 18;
  EXPECT_EQ(threads_of(limited, {{limited, elsewhere}}), 4);  // two containers, which have the affinity in common

  UsableCores each = all_of_eight;
  each.threads = 3;  // of each process, not of all together
  EXPECT_EQ(threads_of(each, {{each, each}}), 3);
  EXPECT_EQ(cores_of(each), 8);
  EXPECT_EQ(cores_of(limited), 5);
}

TEST(UsableCores, OfThisProcessAreAtLeastOne) {
  const UsableCores mine = usable_cores();
  EXPECT_GE(threads_of(mine, {{mine}}), 1);
  EXPECT_GE(cores_of(mine), threads_of(mine, {{mine}}));
}

}  // namespace
}  // namespace paceline
