#include "paceline/kernels/select.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <vector>

#include "paceline/core/check.h"
#include "paceline/core/random.h"
#include "paceline/kernels/magnitude.h"

namespace paceline {
namespace {

// Few different magnitudes, so that many are equal.
std::vector<float> numbers(size_t count, uint64_t different) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    const auto magnitude = static_cast<float>(RandomKey(1).below(i, different));
    values[i] = RandomKey(2).below(i, 2) == 0 ? magnitude : -magnitude;
  }
  return values;
}

struct Selected {
  Selected(size_t room) : indices(room), taken(room) {}
  void shorten(size_t size) {
    indices.resize(size);
    taken.resize(size);
  }
  std::vector<uint32_t> indices;
  std::vector<float> taken;
};

class SelectTest : public ::testing::TestWithParam<std::tuple<size_t, uint64_t>> {};

TEST_P(SelectTest, EqualsItsReference) {
  const auto [count, different] = GetParam();
  const std::vector<float> values = numbers(count, different);
  for (const float least : {0.0f, 1.0f, 5.0f, 900.0f, 5000.0f}) {
    const int32_t magnitude = magnitude_of(least);
    EXPECT_EQ(count_at_least(values.data(), count, magnitude),
              count_at_least_reference(values.data(), count, magnitude));
    for (const size_t equal : {size_t{0}, size_t{2}, count}) {
      for (const size_t most : {size_t{0}, size_t{3}, count}) {
        Selected selected(most), expected(most);
        selected.shorten(select_largest(values.data(), count, magnitude, equal, most, selected.indices.data(),
                                        selected.taken.data()));
        expected.shorten(select_largest_reference(values.data(), count, magnitude, equal, most, expected.indices.data(),
                                                  expected.taken.data()));
        EXPECT_EQ(selected.indices, expected.indices) << least << " equal " << equal << " most " << most;
        EXPECT_EQ(selected.taken, expected.taken);
      }
    }
  }
}

TEST_P(SelectTest, TheMagnitudeAtARankIsThatOfTheSortedOnes) {
  const auto [count, different] = GetParam();
  const std::vector<float> values = numbers(count, different);
  for (const size_t rank : {size_t{1}, size_t{2}, count / 2, count}) {
    if (rank < 1 || rank > count) continue;
    EXPECT_EQ(magnitude_at_rank(values.data(), count, rank), magnitude_at_rank_reference(values.data(), count, rank));
  }
}

INSTANTIATE_TEST_SUITE_P(CountsAndValues, SelectTest,
                         ::testing::Combine(::testing::Values(0, 1, 31, 64, 65, 4096, 10'007),
                                            ::testing::Values(1, 8, 1000)));

TEST(Select, NotANumberIsTheLargest) {
  std::vector<float> values = {1, std::numeric_limits<float>::infinity(), -std::nanf(""), 2};
  EXPECT_EQ(magnitude_at_rank(values.data(), 4, 1), magnitude_of(values[2]));
  EXPECT_EQ(magnitude_at_rank(values.data(), 4, 2), kMagnitudeOfInfinity);
  EXPECT_EQ(count_at_least(values.data(), 4, magnitude_of(1e30f)), 2u);
  EXPECT_EQ(count_above(values.data(), 4, kMagnitudeOfInfinity), 1u);
  EXPECT_EQ(count_above(values.data(), 4, std::numeric_limits<int32_t>::max()), 0u);
}

TEST(Select, ARankThatIsNotThereIsAMistake) {
  const float value = 1;
  EXPECT_THROW(magnitude_at_rank(&value, 1, 0), InternalError);
  EXPECT_THROW(magnitude_at_rank(&value, 1, 2), InternalError);
}

}  // namespace
}  // namespace paceline
