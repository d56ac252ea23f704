#include "paceline/kernels/average.h"

#include <gmock/gmock.h>

#include "paceline/kernels/test_numbers.h"

namespace paceline {
namespace {

TEST(AverageUpdate, EqualsItsReferenceBitForBit) {
  for (const size_t count : {0, 1, 7, 31, 33, 1003}) {
    std::vector<float> average = random_numbers(1, count), expected = average;
    for (uint64_t step = 0; step < 5; ++step) {
      const std::vector<float> weights = random_numbers(2 + step, count);
      average_update(average.data(), weights.data(), count, 0.97);
      average_update_reference(expected.data(), weights.data(), count, 0.97);
    }
    EXPECT_EQ(average, expected) << count;
  }
}

TEST(AverageUpdate, OneStepIsTheFormula) {
  float average = 3;
  const float weight = 7;
  average_update(&average, &weight, 1, 0.75);
  EXPECT_EQ(average, 0.75f * 3 + 0.25f * 7);
}

}  // namespace
}  // namespace paceline
