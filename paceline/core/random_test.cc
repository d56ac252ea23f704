#include "paceline/core/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "paceline/core/error.h"

namespace paceline {
namespace {

using testing::ElementsAre;

// Σ (observed - expected)² / expected. Bounds below are the quantile that chance exceeds once in 10^5 keys.
double chi_square(const std::vector<int>& observed) {
  const double expected = std::accumulate(observed.begin(), observed.end(), 0.0) / static_cast<double>(observed.size());
  double sum = 0;
  for (const int count : observed) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

std::vector<uint64_t> order_of(RandomKey key, uint64_t size) {
  const Permutation permutation(key, size);
  std::vector<uint64_t> order(size);
  for (uint64_t position = 0; position < size; ++position) order[position] = permutation(position);
  return order;
}

TEST(Philox, GivesTheKnownAnswersOfRandom123) {
  EXPECT_THAT(philox(0, 0, 0), ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(philox(~0ull, ~0ull, ~0ull), ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(RandomKey, IsAPureFunctionOfSeedPartsAndIndex) {
  EXPECT_EQ(RandomKey(7).with(3).with("crop").bits(5), RandomKey(7).with(3).with("crop").bits(5));
  EXPECT_NE(RandomKey(7).bits(5), RandomKey(8).bits(5));
  EXPECT_NE(RandomKey(7).bits(5), RandomKey(7).bits(6));
  EXPECT_NE(RandomKey(7).with("crop").bits(0), RandomKey(7).with("flip").bits(0));
}

TEST(RandomKey, StreamsOfNearbySeedsAndPartsAreAllDifferent) {
  std::set<uint64_t> keys;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    keys.insert(RandomKey(seed).value());
    for (uint64_t a = 0; a < 20; ++a) {
      keys.insert(RandomKey(seed).with(a).value());
      for (uint64_t b = 0; b < 20; ++b)
        keys.insert(RandomKey(seed).with(a).with(b).value());  // with(a).with(b) ≠ with(b).with(a)
    }
  }
  EXPECT_EQ(keys.size(), 20u + 20 * 20 + 20 * 20 * 20);
}

TEST(RandomKey, UniformNumbersHaveTheMomentsOfTheUniformDistribution) {
  constexpr int kCount = 100'000;
  const RandomKey key(1);
  double sum = 0, squares = 0, neighbours = 0;
  std::vector<int> histogram(100);
  for (int i = 0; i < kCount; ++i) {
    const double u = key.uniform(i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    squares += u * u;
    neighbours += (u - 0.5) * (key.uniform(i + 1) - 0.5);
    ++histogram[static_cast<size_t>(u * 100)];
  }
  EXPECT_NEAR(sum / kCount, 0.5, 4 * 0.2887 / std::sqrt(kCount));
  EXPECT_NEAR(squares / kCount, 1.0 / 3, 4 * 0.2981 / std::sqrt(kCount));
  EXPECT_NEAR(neighbours / kCount, 0, 4 * (1.0 / 12) / std::sqrt(kCount));
  EXPECT_LT(chi_square(histogram), 167);  // 99 degrees of freedom
}

TEST(RandomKey, BelowReachesEveryNumberEquallyOften) {
  const RandomKey key(2);
  std::vector<int> histogram(10);
  for (int i = 0; i < 100'000; ++i) {
    const uint64_t draw = key.below(i, 10);
    ASSERT_LT(draw, 10u);
    ++histogram[draw];
  }
  EXPECT_LT(chi_square(histogram), 39);  // 9 degrees of freedom
}

TEST(RandomKey, BelowKeepsToItsBoundAtTheEdges) {
  const RandomKey key(3);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(key.below(i, 1), 0u);
    EXPECT_LT(key.below(i, ~0ull), ~0ull);
  }
  EXPECT_THROW(key.below(0, 0), InternalError);
}

TEST(RandomKey, NormalNumbersHaveTheMomentsOfTheNormalDistribution) {
  constexpr int kPairs = 100'000;
  const RandomKey key(4);
  double sum = 0, squares = 0, fourths = 0, products = 0;
  float largest = 0;
  for (int i = 0; i < kPairs; ++i) {
    const auto [a, b] = key.normal_pair(i);
    ASSERT_TRUE(std::isfinite(a) && std::isfinite(b));
    products += static_cast<double>(a) * b;
    for (const double x : {a, b}) {
      sum += x;
      squares += x * x;
      fourths += x * x * x * x;
      largest = std::max(largest, static_cast<float>(std::abs(x)));
    }
  }
  constexpr double kCount = 2.0 * kPairs;
  EXPECT_NEAR(sum / kCount, 0, 4 / std::sqrt(kCount));
  EXPECT_NEAR(squares / kCount, 1, 4 * std::sqrt(2 / kCount));
  EXPECT_NEAR(fourths / kCount, 3, 4 * std::sqrt(96 / kCount));
  EXPECT_NEAR(products / kPairs, 0, 4 / std::sqrt(kPairs));
  EXPECT_GT(largest, 3.9f);  // the tails are there
  EXPECT_LT(largest, 6.0f);
}

TEST(Permutation, IsABijectionForEverySize) {
  std::vector<uint64_t> sizes = {255, 256, 257, 1000, 1023, 1024, 1025, 4097, 50'000, 65'537};
  for (uint64_t size = 0; size <= 70; ++size) sizes.push_back(size);
  for (const uint64_t size : sizes) {
    for (uint64_t seed = 0; seed < 3; ++seed) {
      std::vector<uint64_t> sorted = order_of(RandomKey(seed), size);
      std::ranges::sort(sorted);
      for (uint64_t i = 0; i < size; ++i) ASSERT_EQ(sorted[i], i) << "size " << size << " seed " << seed;
    }
  }
}

TEST(Permutation, StaysInsideHugeSizes) {
  const uint64_t size = (uint64_t{1} << 61) + 12345;
  const Permutation permutation(RandomKey(5), size);
  std::set<uint64_t> elements;
  for (uint64_t position = 0; position < 1000; ++position) elements.insert(permutation(position));
  EXPECT_EQ(elements.size(), 1000u);
  EXPECT_LT(*elements.rbegin(), size);
  EXPECT_THROW(Permutation(RandomKey(5), uint64_t{1} << 62), InternalError);
}

TEST(Permutation, RefusesAPositionBeyondItsSize) {
  EXPECT_THROW(Permutation(RandomKey(6), 0)(0), InternalError);
  EXPECT_THROW(Permutation(RandomKey(6), 10)(10), InternalError);
  EXPECT_EQ(Permutation(RandomKey(6), 1)(0), 0u);
}

TEST(Permutation, IsTheSameForTheSameKeyAndDiffersByKey) {
  EXPECT_EQ(order_of(RandomKey(7), 1000), order_of(RandomKey(7), 1000));
  const auto one = order_of(RandomKey(7).with(1), 1000), other = order_of(RandomKey(7).with(2), 1000);
  int same = 0;
  for (size_t i = 0; i < one.size(); ++i) same += one[i] == other[i];
  EXPECT_LE(same, 6);  // two random orders agree in one place on average
}

TEST(Permutation, EveryElementComesToEveryPositionEquallyOften) {
  constexpr uint64_t kSize = 10;
  for (uint64_t position = 0; position < kSize; ++position) {
    std::vector<int> histogram(kSize);
    for (uint64_t key = 0; key < 10'000; ++key) ++histogram[Permutation(RandomKey(key), kSize)(position)];
    EXPECT_LT(chi_square(histogram), 39) << position;  // 9 degrees of freedom
  }
}

TEST(Permutation, EveryOrderOfAFewElementsIsEquallyLikely) {
  for (const auto& [size, orders, bound] : {std::tuple{2, 2u, 19.6}, {3, 6u, 31.0}, {4, 24u, 66.0}}) {
    std::map<std::vector<uint64_t>, int> counts;
    for (uint64_t key = 0; key < 20'000; ++key) ++counts[order_of(RandomKey(key), size)];
    ASSERT_EQ(counts.size(), orders);
    std::vector<int> histogram;
    for (const auto& [order, count] : counts) histogram.push_back(count);
    EXPECT_LT(chi_square(histogram), bound) << size;
  }
}

TEST(Permutation, NeighboursAreNotKeptTogether) {
  const auto order = order_of(RandomKey(8), 60'000);  // an epoch of MNIST's size
  double covariance = 0;
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    covariance += (static_cast<double>(order[i]) / 60'000 - 0.5) * (static_cast<double>(order[i + 1]) / 60'000 - 0.5);
  }
  EXPECT_NEAR(covariance / 60'000, 0, 4 * (1.0 / 12) / std::sqrt(60'000.0));
}

}  // namespace
}  // namespace paceline
