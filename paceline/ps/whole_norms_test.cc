#include "paceline/ps/whole_norms.h"

#include <gmock/gmock.h>

#include <fstream>

#include "paceline/core/error.h"
#include "paceline/core/test_folder.h"

namespace paceline {
namespace {

TEST(WholeNorms, AreThereWhenEveryShardHasGivenItsPart) {
  const TestFolder folder;
  WholeNorms norms(folder.path() / "norms", 2);
  EXPECT_FALSE(norms.add(1, 5, {{1, 10}, {2, 20}}));
  EXPECT_FALSE(norms.add(1, 5, {{1, 10}, {2, 20}}));  // told again
  EXPECT_EQ(norms.index(), 0u);
  EXPECT_TRUE(norms.add(0, 5, {{3, 30}, {0, 0}}));
  EXPECT_EQ(norms.index(), 5u);
  ASSERT_EQ(norms.sum().size(), 2u);
  EXPECT_EQ(norms.sum()[0].weights, 4);
  EXPECT_EQ(norms.sum()[0].gradient, 40);
  EXPECT_EQ(norms.sum()[1].gradient, 20);
}

TEST(WholeNorms, OutliveTheProcess) {
  const TestFolder folder;
  {
    WholeNorms norms(folder.path() / "norms", 2);
    norms.add(0, 7, {{1, 2}});
    norms.add(1, 7, {{3, 4}});
    norms.add(0, 9, {{5, 6}});  // a part of the next is lost
  }
  WholeNorms norms(folder.path() / "norms", 2);
  EXPECT_EQ(norms.index(), 7u);
  EXPECT_TRUE(norms.add(1, 7, {{3, 4}}));  // whoever still needs it
  EXPECT_EQ(norms.sum().at(0).weights, 4);
  EXPECT_FALSE(norms.add(1, 9, {{7, 8}}));
  EXPECT_TRUE(norms.add(0, 9, {{5, 6}}));
  EXPECT_EQ(norms.sum().at(0).gradient, 14);
}

TEST(WholeNorms, RefuseADamagedFileAndOtherModels) {
  const TestFolder folder;
  std::ofstream(folder.path() / "norms") << "0123456789";
  EXPECT_THROW(WholeNorms(folder.path() / "norms", 2), FileError);
  WholeNorms norms(folder.path() / "others", 2);
  norms.add(0, 1, {{1, 2}});
  EXPECT_THROW(norms.add(1, 1, {{1, 2}, {3, 4}}), PeerError);
}

}  // namespace
}  // namespace paceline
