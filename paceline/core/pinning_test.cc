#include "paceline/core/pinning.h"

#include <gmock/gmock.h>

#include <thread>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Pinning, PartsAreNeighboursAndDisjoint) {
  const std::vector<int> cores = {0, 1, 2, 3, 8, 9, 10};
  EXPECT_THAT(cores_of_part(cores, 0, 3), ElementsAre(0, 1));
  EXPECT_THAT(cores_of_part(cores, 1, 3), ElementsAre(2, 3));
  EXPECT_THAT(cores_of_part(cores, 2, 3), ElementsAre(8, 9));
  EXPECT_THAT(cores_of_part(cores, 0, 1), ElementsAre(0, 1, 2, 3, 8, 9, 10));
}

TEST(Pinning, MoreProcessesThanCoresAreNotPinned) { EXPECT_THAT(cores_of_part({0, 1}, 2, 3), IsEmpty()); }

TEST(Pinning, HoldsForTheThreadAndThoseThatItStarts) {
  const std::vector<int> before = allowed_cores();
  std::vector<int> after, started;
  std::thread([&] {
    pin_to({before.back()});
    after = allowed_cores();
    std::thread([&] { started = allowed_cores(); }).join();
  }).join();
  EXPECT_THAT(after, ElementsAre(before.back()));
  EXPECT_EQ(started, after);
  EXPECT_EQ(allowed_cores(), before);
}

}  // namespace
}  // namespace paceline
