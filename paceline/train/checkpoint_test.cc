#include "paceline/train/checkpoint.h"

#include <gmock/gmock.h>

#include <fstream>

#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/core/test_folder.h"
#include "paceline/core/test_memory.h"
#include "paceline/core/test_other_user.h"
#include "paceline/models/initialise.h"
#include "paceline/models/state.h"
#include "paceline/optim/sgd.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;
using ::testing::UnorderedElementsAre;

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() { initialise(*model_, "kaiming", 1); }

  CheckpointRef write(int64_t step, int64_t keep = 3) {
    RunState state;
    state.step = step;
    state.cursor_samples = static_cast<uint64_t>(step) * 7;
    state.window_loss_sum = 0.1 + 0.2;  // not a short decimal
    return CheckpointStore(folder_, keep).write(*model_, optimizer_, state);
  }

  static void damage(const CheckpointRef& checkpoint) { replace_file(checkpoint.folder / "state.json", "{}"); }

  std::vector<int64_t> steps() const {
    std::vector<int64_t> steps;
    for (const CheckpointRef& checkpoint : CheckpointStore(folder_, 3).all()) steps.push_back(checkpoint.step);
    return steps;
  }

  const TestFolder test_folder_;
  const std::filesystem::path folder_ = test_folder_.path();
  std::shared_ptr<Model> model_ =
      make_model(builtin_models(), "small_cnn", {.classes = 3, .channels = 1, .image_size = 8});
  Sgd optimizer_{parameters_of(*model_), {}};
};

TEST_F(CheckpointTest, ComesBackBitForBit) {
  optimizer_.state().at("momentum/fc.weight").fill_(0.125f);
  const CheckpointRef checkpoint = write(5);
  const auto other = make_model(builtin_models(), "small_cnn", {.classes = 3, .channels = 1, .image_size = 8});
  initialise(*other, "kaiming", 2);
  Sgd other_optimizer(parameters_of(*other), {});
  const RunState state = load_checkpoint(checkpoint, *other, other_optimizer);
  EXPECT_EQ(weights_sha256(*other), weights_sha256(*model_));
  EXPECT_TRUE(
      torch::equal(other_optimizer.state().at("momentum/fc.weight"), optimizer_.state().at("momentum/fc.weight")));
  EXPECT_EQ(state.step, 5);
  EXPECT_EQ(state.cursor_samples, 35u);
  EXPECT_EQ(state.window_loss_sum, 0.1 + 0.2);
}

TEST_F(CheckpointTest, OnlyTheNewestAreKept) {
  for (const int64_t step : {1, 2, 3, 4, 5}) {
    write(step);
    CheckpointStore(folder_, 3).trust_newest();
  }
  EXPECT_THAT(steps(), ElementsAre(3, 4, 5));
}

TEST_F(CheckpointTest, OneThatNoStepWasMadeFromPushesOutNothing) {
  for (const int64_t step : {1, 2}) {
    write(step, 1);
    CheckpointStore(folder_, 1).trust_newest();
  }
  write(3, 1);
  EXPECT_THAT(steps(), ElementsAre(2, 3));
  CheckpointStore(folder_, 1).trust_newest();
  EXPECT_THAT(steps(), ElementsAre(3));
}

TEST_F(CheckpointTest, OneThatAStepFailedFromIsSetAside) {
  CheckpointStore store(folder_, 1);
  EXPECT_FALSE(store.set_newest_aside());
  write(1, 1);
  EXPECT_EQ(store.set_newest_aside()->step, 1) << "better than none";
  write(2, 1);
  EXPECT_EQ(store.set_newest_aside()->step, 1);
  EXPECT_THAT(steps(), ElementsAre(1));
  EXPECT_EQ(store.find_newest_intact().newest->step, 1);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "diverged-step-00000002" / "weights.safetensors"));
  write(2, 1);  // the run has gone on from 1, and better
  store.trust_newest();
  EXPECT_THAT(steps(), ElementsAre(2));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "diverged-step-00000002"));
}

TEST_F(CheckpointTest, LeftoversOfAKilledWriterAreIgnoredAndRemoved) {
  write(1);
  std::filesystem::create_directories(folder_ / ".writing-step-00000002");
  EXPECT_EQ(CheckpointStore(folder_, 3).find_newest_intact().newest->step, 1);
  write(3);
  EXPECT_FALSE(std::filesystem::exists(folder_ / ".writing-step-00000002"));
}

TEST_F(CheckpointTest, EveryDamagedOrMissingFileIsNoticed) {
  for (const char* file : {"weights.safetensors", "optimizer.safetensors", "state.json", "SHA256SUMS"}) {
    for (const bool missing : {true, false}) {
      std::filesystem::remove_all(folder_);
      write(1);
      const CheckpointRef newest = write(2);
      if (missing) {
        std::filesystem::remove(newest.folder / file);
      } else {
        std::ofstream(newest.folder / file, std::ios::in | std::ios::out) << "x";  // the first byte
      }
      const auto search = CheckpointStore(folder_, 3).find_newest_intact();
      ASSERT_TRUE(search.newest) << file;
      EXPECT_EQ(search.newest->step, 1) << file;
      ASSERT_EQ(search.damaged.size(), 1u) << file;
      EXPECT_THAT(search.damaged[0].text(), HasSubstr("step-00000002: ")) << file;
    }
  }
}

TEST_F(CheckpointTest, AnEmptyListOfChecksumsIsDamage) {
  const CheckpointRef checkpoint = write(1);
  replace_file(checkpoint.folder / "SHA256SUMS", "");
  EXPECT_THAT(*damage_of(checkpoint), HasSubstr("no line for weights.safetensors"));
}

TEST_F(CheckpointTest, DamagedOnesAreKeptAsideAndPushOutNothing) {
  for (const int64_t step : {8, 9}) damage(write(step, 1));
  std::vector<std::string> told;
  Log log([&](std::string_view line) { told.emplace_back(line); });
  CheckpointStore store(folder_, 1, &log);
  const CheckpointStore::Search search = store.find_newest_intact();
  EXPECT_FALSE(search.newest);
  store.set_aside(search.damaged);
  EXPECT_THAT(steps(), IsEmpty());
  EXPECT_THAT(told, ElementsAre(AllOf(HasSubstr("step-00000009: state.json does not have its checksum"),
                                      HasSubstr("it is kept as damaged-step-00000009")),
                                HasSubstr("damaged-step-00000008")));
  for (const int64_t step : {1, 2, 3}) {
    write(step, 1);
    store.trust_newest();
  }
  EXPECT_THAT(steps(), ElementsAre(3));
  for (const char* name : {"damaged-step-00000008", "damaged-step-00000009"})
    EXPECT_TRUE(std::filesystem::exists(folder_ / name / "weights.safetensors")) << name;
}

TEST_F(CheckpointTest, DamagedOnesOfTheSameStepAreAllKept) {
  CheckpointStore store(folder_, 1);
  for (int time = 0; time < 3; ++time) {
    damage(write(1));
    store.set_aside(store.find_newest_intact().damaged);
  }
  for (const char* name : {"damaged-step-00000001", "damaged-step-00000001-2", "damaged-step-00000001-3"})
    EXPECT_TRUE(std::filesystem::exists(folder_ / name / "weights.safetensors")) << name;
}

TEST_F(CheckpointTest, OneThatIsDamagedWhenItsStepComesAgainIsKeptAside) {
  damage(write(1));
  EXPECT_FALSE(damage_of(write(1)));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "damaged-step-00000001" / "weights.safetensors"));
}

// A loop of links for a disk that does not answer: the file is there, and reading it fails.
TEST_F(CheckpointTest, OneThatCannotBeReadIsAnErrorAndNoDamage) {
  write(1);
  for (const char* file : {"weights.safetensors", "SHA256SUMS"}) {
    const std::filesystem::path path = write(2).folder / file, away = folder_ / "away";
    rename_path(path, away);
    std::filesystem::create_symlink(path, path);
    EXPECT_THAT([&] { CheckpointStore(folder_, 3).find_newest_intact(); },
                ThrowsMessage<FileError>(AllOf(HasSubstr(path.string()), HasSubstr("symbolic links"),
                                               HasSubstr("try again, or move step-00000002 out of"))));
    rename_path(away, path);
    EXPECT_EQ(CheckpointStore(folder_, 3).find_newest_intact().newest->step, 2);
  }
}

TEST_F(CheckpointTest, AFolderThatCannotBeReadIsNotEmpty) {
  std::filesystem::create_symlink(folder_ / "loop", folder_ / "loop");
  EXPECT_THROW(CheckpointStore(folder_ / "loop", 3).all(), FileError);
}

TEST_F(CheckpointTest, AFileThatTheChecksumsDoNotNameIsDamage) {
  const CheckpointRef checkpoint = write(1);
  replace_file(checkpoint.folder / "ranks.safetensors", "");
  EXPECT_THAT(*damage_of(checkpoint), HasSubstr("no line for ranks.safetensors"));
}

TEST_F(CheckpointTest, WhatIsWrittenLastIsNotRemovedForOnesOfHigherSteps) {
  for (const int64_t step : {7, 8}) write(step, 2);
  CheckpointStore store(folder_, 2);
  for (const int64_t step : {1, 2}) {
    store.write(*model_, optimizer_, {.step = step});
    store.trust_newest();
  }
  EXPECT_THAT(steps(), ElementsAre(2, 7, 8));
}

TEST_F(CheckpointTest, WhatCannotBeRemovedIsAWarningAndNoError) {
  const OrdinaryUser user(folder_);
  if (!user.holds()) GTEST_SKIP() << "no ordinary user here";
  for (const char* name : {"step-00000001/held", ".writing-step-00000009/held", ".removing-step-00000001/held",
                           "diverged-step-00000003/held"}) {
    make_directories(folder_ / name);
    replace_file(folder_ / name / "file", "");
    std::filesystem::permissions(folder_ / name, std::filesystem::perms::owner_read);
  }
  std::vector<std::string> told;
  Log log([&](std::string_view line) { told.emplace_back(line); });
  CheckpointStore store(folder_, 1, &log);
  for (const int64_t step : {2, 3, 4}) {
    store.write(*model_, optimizer_, {.step = step});
    store.trust_newest();
  }
  EXPECT_THAT(steps(), ElementsAre(4));
  EXPECT_THAT(told, UnorderedElementsAre(HasSubstr("cannot remove " + (folder_ / ".writing-step-00000009").string()),
                                         HasSubstr("cannot remove " + (folder_ / ".removing-step-00000001").string()),
                                         HasSubstr((folder_ / ".removing-step-00000001-2").string()),
                                         HasSubstr((folder_ / "diverged-step-00000003").string())));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_))
    if (entry.path().filename() == "held")
      std::filesystem::permissions(entry.path(), std::filesystem::perms::owner_all);
}

TEST_F(CheckpointTest, WritingAndVerifyingTakeLittleMemory) {
  constexpr int64_t kBytes = 100 << 20;
  optimizer_.state().at("momentum/fc.weight").set_data(torch::ones({kBytes / 4}));
  EXPECT_LT(peak_growth_bytes([&] { write(1); }), kBytes / 5);
  EXPECT_LT(peak_growth_bytes([&] { damage_of({1, folder_ / "step-00000001"}); }), kBytes / 5);
}

TEST_F(CheckpointTest, AnUnwritableFolderIsAFileErrorAndLeavesTheOldOnes) {
  write(1);
  replace_file(folder_ / ".writing-blocked", "");
  CheckpointStore blocked(folder_ / "step-00000001" / "state.json", 3);  // a file where a folder should be
  EXPECT_THROW(blocked.write(*model_, optimizer_, {}), FileError);
  EXPECT_FALSE(damage_of({1, folder_ / "step-00000001"}));
}

TEST_F(CheckpointTest, OtherNamesInTheFolderAreLeftAlone) {
  write(1);
  for (const char* name : {"step-", "step-x", "step-99999999999999999999", "notes"})
    std::filesystem::create_directories(folder_ / name);
  EXPECT_THAT(steps(), ElementsAre(1));
}

TEST_F(CheckpointTest, NothingThereIsNothingFound) {
  const auto search = CheckpointStore(folder_ / "absent", 3).find_newest_intact();
  EXPECT_FALSE(search.newest);
  EXPECT_TRUE(search.damaged.empty());
}

}  // namespace
}  // namespace paceline
