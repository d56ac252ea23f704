#include "paceline/ps/worker_statistics.h"

#include <gmock/gmock.h>

#include <fstream>

#include "paceline/core/test_folder.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(WorkerStatistics, AreThereForTheNextProcess) {
  const TestFolder folder;
  {
    WorkerStatistics statistics(folder.path() / "statistics");
    statistics.set(1, {1, 2});
    statistics.set(12, {3});
    statistics.set(3, {4});
    statistics.set(1, {5, 6, 7});
    statistics.erase(3);
    EXPECT_EQ(statistics.all().size(), 2u);
  }
  const WorkerStatistics again(folder.path() / "statistics");
  EXPECT_THAT(again.all(), ElementsAre(Pair(1, ElementsAre(5, 6, 7)), Pair(12, ElementsAre(3))));
}

TEST(WorkerStatistics, OneThatWasBeingWrittenDoesNotCount) {
  const TestFolder folder;
  {
    WorkerStatistics statistics(folder.path());
    statistics.set(0, {1});
  }
  std::ofstream(folder.path() / "0.writing") << "half of it";
  std::ofstream(folder.path() / "7.writing") << "half of it";
  EXPECT_THAT(WorkerStatistics(folder.path()).all(), ElementsAre(Pair(0, ElementsAre(1))));
}

}  // namespace
}  // namespace paceline
