#include "paceline/core/number_text.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(WithCommas, GroupsThousands) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1000), "1,000");
  EXPECT_EQ(with_commas(138'357'544), "138,357,544");
}

}  // namespace
}  // namespace paceline
