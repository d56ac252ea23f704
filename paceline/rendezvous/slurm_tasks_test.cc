#include "paceline/rendezvous/slurm_tasks.h"

#include <gtest/gtest.h>

#include <map>

namespace paceline {
namespace {

std::optional<int> left_out(const std::map<std::string, std::string>& more) {
  std::map<std::string, std::string> variables = more;
  variables.insert({{"SLURM_JOB_ID", "79"}, {"SLURM_NTASKS", "4"}, {"SLURM_NNODES", "1"}});
  return slurm_tasks_left_out([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(SlurmTasks, AreLeftOutInABatchScriptWithoutSrun) {
  EXPECT_EQ(left_out({}), 4);
  EXPECT_EQ(left_out({{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "4294967291"}}), 4);  // the script itself
}

TEST(SlurmTasks, AreNotLeftOutByAStepALauncherOrAJobOfOne) {
  EXPECT_EQ(left_out({{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_NODELIST", "node1"}}), std::nullopt);
  EXPECT_EQ(left_out({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}}),
            std::nullopt);
  EXPECT_EQ(left_out({{"SLURM_NTASKS", "1"}}), std::nullopt);
  EXPECT_EQ(left_out({{"SLURM_NTASKS", "x"}}), std::nullopt);
  EXPECT_EQ(left_out({{"SLURM_JOB_ID", ""}}), std::nullopt);
}

}  // namespace
}  // namespace paceline
