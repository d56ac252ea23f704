#include "paceline/core/recipe_notes.h"

#include <gmock/gmock.h>

#include <fstream>

#include "paceline/core/test_folder.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::IsEmpty;

class RecipeNotes : public testing::Test {
 protected:
  RecipeNotes() {
    std::ofstream(file_)
        << "[optimizer]\nname = \"sgd\"\nrate = 0.1\nmomentum = 0.9\nnesterov = true\n[batch]\nglobal = 64\n";
  }
  std::vector<std::string> notes(const std::vector<std::string>& overrides) { return override_notes(file_, overrides); }

  TestFolder folder_;
  const std::filesystem::path file_ = folder_.path() / "r.toml";
};

TEST_F(RecipeNotes, AreNoneWhereNothingIsLeftOut) {
  EXPECT_THAT(notes({}), IsEmpty());
  EXPECT_THAT(notes({"optimizer.rate=0.2", "optimizer.nesterov=false", "batch.local=8"}), IsEmpty());
  EXPECT_THAT(notes({"optimizer.nesterov=default"}), IsEmpty());
}

TEST_F(RecipeNotes, NameWhatAnOverrideLeavesOutAndTheRateThatStays) {
  EXPECT_THAT(
      notes({"optimizer.name=adam"}),
      ElementsAre(EndsWith("r.toml, as --set leaves them without effect: optimizer.momentum, optimizer.nesterov"),
                  EndsWith("r.toml:3:1: optimizer.rate stays 0.1, which was meant for sgd; adam begins with 0.001 "
                           "by default: --set optimizer.rate=default")));
  EXPECT_THAT(notes({"optimizer.name=adam", "optimizer.rate=0.01"}),
              ElementsAre(EndsWith("optimizer.momentum, optimizer.nesterov")));
  EXPECT_THAT(notes({"optimizer.name=lars"}), ElementsAre(EndsWith("without effect: optimizer.nesterov")));
}

}  // namespace
}  // namespace paceline
