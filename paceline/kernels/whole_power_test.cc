#include "paceline/kernels/whole_power.h"

#include <gmock/gmock.h>

#include <cmath>

namespace paceline {
namespace {

TEST(WholePower, IsThePower) {
  EXPECT_EQ(whole_power(0.9, 0), 1);
  EXPECT_EQ(whole_power(0.9, 1), 0.9);
  EXPECT_EQ(whole_power(2, 40), 0x1p40);
  for (const double base : {0.9, 0.99, 0.999, 0.9999}) {
    for (const int64_t exponent : {2, 3, 7, 100, 1000, 12'345})
      EXPECT_NEAR(whole_power(base, exponent), std::pow(base, exponent), 1.2e-16 * static_cast<double>(exponent))
          << base << "^" << exponent;
  }
}

TEST(WholePower, OfManyStepsIsNothing) {
  EXPECT_EQ(whole_power(0, 5), 0);
  EXPECT_EQ(whole_power(0.999, int64_t{1} << 40), 0);
}

}  // namespace
}  // namespace paceline
