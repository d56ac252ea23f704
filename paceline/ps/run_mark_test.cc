#include "paceline/ps/run_mark.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>

#include "paceline/core/error.h"
#include "paceline/core/test_folder.h"
#include "paceline/ps/state_names.h"

namespace paceline {
namespace {

using testing::HasSubstr;

const std::string kSettings = "optimizer.rate = 0.1\nsync.policy = \"bsp\"\n";

std::string refusal_of(const std::filesystem::path& folder, const std::string& settings) {
  try {
    take_run_mark(folder, 0, settings, 0);
  } catch (const FileError& error) {
    return error.what();
  }
  return "no error";
}

TEST(RunMark, IsNewWithoutStateAndKeptWithIt) {
  const MemoryFolder folder;
  const RunMark first = take_run_mark(folder.path(), 0, kSettings, 7);
  EXPECT_NE(first.history, 0u);
  EXPECT_EQ(first.first_update, 7u);
  EXPECT_NE(take_run_mark(folder.path(), 0, kSettings, 7).history, first.history);  // there was no state yet
  const RunMark begun = take_run_mark(folder.path(), 0, kSettings, 9);
  std::ofstream(folder.path() / shard_file_name(0)) << "a state";
  const RunMark again = take_run_mark(folder.path(), 0, kSettings, 0);
  EXPECT_EQ(again.history, begun.history);
  EXPECT_EQ(again.first_update, 9u);
  EXPECT_EQ(again.settings, kSettings);
}

TEST(RunMark, AStateOfOtherSettingsIsRefusedWithTheKeysThatDiffer) {
  const MemoryFolder folder;
  take_run_mark(folder.path(), 0, kSettings, 0);
  std::ofstream(folder.path() / shard_file_name(0)) << "a state";
  EXPECT_THAT(refusal_of(folder.path(), "optimizer.rate = 0.5\nsync.policy = \"bsp\"\n"),
              HasSubstr("is of another recipe: optimizer.rate (0.5 here, 0.1 there); give the recipe as it was"));
}

TEST(RunMark, AStateOfOtherDataIsRefused) {
  const MemoryFolder folder;
  const std::string settings = std::string(kSettings) + "train.seed = 1\n";
  take_run_mark(folder.path(), 0, settings + "training samples = 9\ntraining samples, pixels and labels = a\n", 0);
  std::ofstream(folder.path() / shard_file_name(0)) << "a state";
  EXPECT_THAT(
      refusal_of(folder.path(), settings + "training samples = 9\ntraining samples, pixels and labels = b\n"),
      HasSubstr("is of other training data: training samples, pixels and labels (b here, a there); give the data as"));
  EXPECT_THAT(refusal_of(folder.path(), std::string(kSettings) + "train.seed = 2\ntraining samples = 9\n"),
              HasSubstr("is of another recipe: train.seed (2 here, 1 there), training samples, pixels"));
}

TEST(RunMark, AStateWhoseMarkIsDamagedIsRefused) {
  const MemoryFolder folder;
  take_run_mark(folder.path(), 0, kSettings, 0);
  std::ofstream(folder.path() / shard_file_name(0)) << "a state";
  for (const char* text : {"", "history \n", "history 12", "history 0\nfirst_update 0\nsettings\n",
                           "history 12\nfirst_update x\nsettings\n", "history 12\nfirst_update 3\n"}) {
    std::ofstream(folder.path() / run_mark_name(0)) << text;
    EXPECT_THAT(refusal_of(folder.path(), kSettings), HasSubstr("does not say of which run")) << text;
  }
}

TEST(SettingsDifference, NamesAFewKeysAndCountsTheOthers) {
  EXPECT_EQ(settings_difference(kSettings, kSettings), "");
  EXPECT_EQ(settings_difference("a = 1\n", "a = 1\nb = 2\n"), "b (not set here, 2 there)");
  std::string here, there;
  for (char key = 'a'; key <= 'g'; ++key) {
    here += fmt::format("{} = 1\n", key);
    there += fmt::format("{} = 2\n", key);
  }
  EXPECT_THAT(settings_difference(here, there), HasSubstr("d (1 here, 2 there) and 3 more"));
  EXPECT_THAT(settings_difference("x", "y"), HasSubstr("written differently"));
  EXPECT_LT(settings_difference("a = 1\n", "a = " + std::string(10'000, 'x') + "\n").size(), 100u);
}

}  // namespace
}  // namespace paceline
