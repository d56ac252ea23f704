#include "paceline/train/run_book.h"

#include <gmock/gmock.h>

#include "paceline/core/file.h"
#include "paceline/core/test_folder.h"
#include "paceline/train/assemble.h"
#include "paceline/train/divergence.h"
#include "paceline/train/test_network.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class RunBookTest : public ::testing::Test {
 protected:
  const TestFolder folder_;
  const Recipe recipe_ = tiny_recipe("[train]\nepochs = 2\ntarget_accuracy = 0.5\n", {});
  const DatasetPair data_ = open_data(recipe_, catalog_with_tiny());
  RunState state_ = {.step = 4, .cursor_samples = 100, .train_seconds = 7};
  RunBook book_{recipe_, state_, data_, {.samples = 200, .steps = 8, .epochs = 2}, {.folder = {folder_.path()}}};
};

TEST_F(RunBookTest, AnEvaluationCountsForThePlaceWhoseWeightsItHad) {
  book_.open(0);
  const RunPlace place = book_.here();
  state_.step = 6;  // training went on meanwhile
  state_.train_seconds = 9;
  book_.note_evaluation({.samples = 37, .loss = 0.25, .top1 = 0.75, .top5 = 1}, place, 3);
  EXPECT_EQ(state_.evaluated_step, 4);
  EXPECT_EQ(state_.eval_seconds, 3);
  EXPECT_EQ(state_.target_seconds, 7);
  EXPECT_EQ(state_.target_epoch, 1);
  EXPECT_TRUE(book_.reached_target());
  book_.flush();
  EXPECT_THAT(read_file(RunFolder{folder_.path()}.metrics()), HasSubstr(R"("kind":"test","step":4,"epoch":1.0)"));
}

TEST_F(RunBookTest, AWorseEvaluationLeavesTheBestAndTheTargetAsTheyWere) {
  book_.note_evaluation({.loss = 0.25, .top1 = 0.75}, {.step = 4, .epoch = 1, .train_seconds = 7}, 1);
  book_.note_evaluation({.loss = 0.5, .top1 = 0.6}, {.step = 8, .epoch = 2, .train_seconds = 14}, 1);
  EXPECT_EQ(state_.best_accuracy, 0.75);
  EXPECT_EQ(state_.test_accuracy, 0.6);
  EXPECT_EQ(state_.target_seconds, 7);
}

TEST_F(RunBookTest, ATestLossThatIsNotFiniteEndsTheRunAtItsEndOnly) {
  book_.note_evaluation({.loss = INFINITY, .top1 = 0.25}, book_.here(), 1);
  EXPECT_EQ(state_.test_loss, -1);
  EXPECT_THROW(book_.require_finite_test(), DivergenceError);
  book_.note_evaluation({.loss = 2, .top1 = 0.25}, book_.here(), 1);
  EXPECT_NO_THROW(book_.require_finite_test());
}

TEST_F(RunBookTest, RecordsNothingBeforeItIsOpenAndLeavesASummary) {
  book_.record("train", {{"loss", 3}});
  EXPECT_FALSE(std::filesystem::exists(RunFolder{folder_.path()}.metrics()));
  book_.open(0);
  book_.record("train", {{"loss", 2}});
  const Summary summary = book_.summary("epochs");
  EXPECT_EQ(summary.steps, 4);
  EXPECT_EQ(summary.epochs, 1);
  book_.leave(summary);
  EXPECT_THAT(read_file(RunFolder{folder_.path()}.metrics()), Not(HasSubstr("3.0")));
  EXPECT_THAT(read_file(RunFolder{folder_.path()}.summary()), HasSubstr(R"("ending": "epochs")"));
  EXPECT_TRUE(std::filesystem::exists(RunFolder{folder_.path()}.chart()));
}

}  // namespace
}  // namespace paceline
