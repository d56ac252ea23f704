#include "paceline/kernels/finite.h"

#include <gmock/gmock.h>

#include <limits>

#include "paceline/kernels/test_numbers.h"

namespace paceline {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(CountNotFinite, FindsEachKindAtEachPlace) {
  for (const size_t count : {1, 7, 16, 33, 1003}) {
    for (const float bad : {kInfinity, -kInfinity, kNan, -kNan}) {
      for (size_t place = 0; place < count; ++place) {
        std::vector<float> numbers = random_numbers(1, count);
        ASSERT_EQ(count_not_finite(numbers.data(), count), 0u);
        numbers[place] = bad;
        ASSERT_EQ(count_not_finite(numbers.data(), count), 1u) << place << " of " << count;
        if (count == 1003) place += 17;  // of a long run, some
      }
    }
  }
}

TEST(CountNotFinite, TheLargestAndTheSmallestAreFinite) {
  const std::vector<float> numbers = {0, -0.0f, std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest(),
                                      std::numeric_limits<float>::denorm_min()};
  EXPECT_EQ(count_not_finite(numbers.data(), numbers.size()), 0u);
  EXPECT_EQ(count_not_finite(nullptr, 0), 0u);
}

TEST(CountNotFinite, CountsAsItsReferenceOverSeveralBlocks) {
  std::vector<float> numbers = random_numbers(2, 200'001);
  for (size_t i = 0; i < numbers.size(); i += 3) numbers[i] = i % 2 == 0 ? kNan : kInfinity;
  EXPECT_EQ(count_not_finite(numbers.data(), numbers.size()), 66'667u);
  EXPECT_EQ(count_not_finite_reference(numbers.data(), numbers.size()), 66'667u);
}

}  // namespace
}  // namespace paceline
