#include "paceline/kernels/secant.h"

#include <gmock/gmock.h>

#include "paceline/kernels/test_numbers.h"

namespace paceline {
namespace {

TEST(SecantSums, EqualTheirReference) {
  for (const size_t count : {0, 1, 7, 8, 31, 33, 1003}) {
    const auto w = random_numbers(1, count), w_before = random_numbers(2, count);
    const auto g = random_numbers(3, count), g_before = random_numbers(4, count);
    const SecantSums found = secant_sums(w.data(), w_before.data(), g.data(), g_before.data(), 0.5, count);
    const SecantSums expected = secant_sums_reference(w.data(), w_before.data(), g.data(), g_before.data(), 0.5, count);
    EXPECT_NEAR(found.move_dot_change, expected.move_dot_change, 1e-10) << count;
    EXPECT_NEAR(found.move_dot_previous, expected.move_dot_previous, 1e-10) << count;
    EXPECT_NEAR(found.move_squared, expected.move_squared, 1e-10) << count;
    EXPECT_NEAR(found.gradient_squared, expected.gradient_squared, 1e-10) << count;
  }
}

TEST(SecantSums, AreExactForSmallIntegers) {
  const std::vector<float> w(20, 5), w_before(20, 3), g(20, 4), g_before(20, 2);
  const SecantSums found = secant_sums(w.data(), w_before.data(), g.data(), g_before.data(), 0.5, 20);
  EXPECT_EQ(found.move_dot_change, 20 * 2 * 3);
  EXPECT_EQ(found.move_dot_previous, 20 * 2 * 1);
  EXPECT_EQ(found.move_squared, 20 * 4);
  EXPECT_EQ(found.gradient_squared, 20 * 16);
}

}  // namespace
}  // namespace paceline
