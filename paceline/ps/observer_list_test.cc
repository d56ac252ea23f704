#include "paceline/ps/observer_list.h"

#include <gtest/gtest.h>

#include <fstream>

#include "paceline/core/test_folder.h"

namespace paceline {
namespace {

TEST(ObserverList, AServerThatIsStartedAgainKnowsWhoHasNotLeft) {
  const TestFolder folder;
  {
    ObserverList observers(folder.path() / "observers");
    EXPECT_TRUE(observers.empty());
    observers.insert(0);
    observers.insert(3);
    observers.erase(3);
    observers.erase(5);
  }
  std::ofstream(folder.path() / "observers" / "no number");
  ObserverList again(folder.path() / "observers");
  EXPECT_FALSE(again.empty());
  again.insert(0);  // it calls again
  again.erase(0);
  EXPECT_TRUE(again.empty());
  EXPECT_TRUE(ObserverList(folder.path() / "observers").empty());
}

TEST(ObserverList, IsKeptNowhereWithoutAFolder) {
  ObserverList observers({});
  observers.insert(1);
  EXPECT_FALSE(observers.empty());
  observers.erase(1);
  EXPECT_TRUE(observers.empty());
}

}  // namespace
}  // namespace paceline
