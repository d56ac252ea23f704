#include "paceline/kernels/pack.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "paceline/core/random.h"

namespace paceline {
namespace {

using ::testing::Each;
using ::testing::Truly;

std::vector<float> numbers(size_t count, uint64_t seed) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = RandomKey(seed).normal_pair(i)[0];
  return values;
}

// The bits, because NaN is not equal to itself and -0 is to 0. All NaNs are taken for the same.
std::vector<uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::isnan(value) ? 0x7fc00000u : std::bit_cast<uint32_t>(value));
  return bits;
}

struct Int8 {
  Int8(size_t count, size_t block) : scales((count + block - 1) / block, 9), packed(count, 9) {}
  std::vector<float> scales;
  std::vector<int8_t> packed;
};

struct Signs {
  Signs(size_t count, size_t block)
      : scales((count + block - 1) / block, {9, 9}),
        signs(count / block * bytes_of_signs(block) + bytes_of_signs(count % block), 9) {}
  std::vector<float> flat_scales() const {
    std::vector<float> flat;
    for (const SignScales& pair : scales) flat.insert(flat.end(), {pair.positive, pair.other});
    return flat;
  }
  std::vector<SignScales> scales;
  std::vector<uint8_t> signs;
};

void expect_int8_as_reference(const std::vector<float>& values, size_t block) {
  const size_t count = values.size();
  Int8 expected(count, block), with_lost(count, block), without(count, block), in_place(count, block);
  std::vector<float> expected_lost(count, 9), lost(count, 9), both = values;
  pack_int8_reference(values.data(), count, block, expected.scales.data(), expected.packed.data(),
                      expected_lost.data());
  pack_int8(values.data(), count, block, with_lost.scales.data(), with_lost.packed.data(), lost.data());
  pack_int8(values.data(), count, block, without.scales.data(), without.packed.data(), nullptr);
  pack_int8(both.data(), count, block, in_place.scales.data(), in_place.packed.data(), both.data());
  for (const Int8* result : {&with_lost, &without, &in_place}) {
    EXPECT_EQ(bits_of(result->scales), bits_of(expected.scales));
    EXPECT_EQ(result->packed, expected.packed);
  }
  EXPECT_EQ(bits_of(lost), bits_of(expected_lost));
  EXPECT_EQ(bits_of(both), bits_of(expected_lost));

  std::vector<float> expected_values(count), unpacked(count), sum = numbers(count, 5), expected_sum = sum;
  unpack_int8_reference(expected.scales.data(), expected.packed.data(), count, block, expected_values.data());
  unpack_int8(expected.scales.data(), expected.packed.data(), count, block, unpacked.data());
  unpack_int8_add(expected.scales.data(), expected.packed.data(), count, block, sum.data());
  for (size_t i = 0; i < count; ++i) expected_sum[i] += expected_values[i];
  EXPECT_EQ(bits_of(unpacked), bits_of(expected_values));
  EXPECT_EQ(bits_of(sum), bits_of(expected_sum));
}

void expect_signs_as_reference(const std::vector<float>& values, size_t block) {
  const size_t count = values.size();
  Signs expected(count, block), with_lost(count, block), without(count, block), in_place(count, block);
  std::vector<float> expected_lost(count, 9), lost(count, 9), both = values;
  pack_signs_reference(values.data(), count, block, expected.scales.data(), expected.signs.data(),
                       expected_lost.data());
  pack_signs(values.data(), count, block, with_lost.scales.data(), with_lost.signs.data(), lost.data());
  pack_signs(values.data(), count, block, without.scales.data(), without.signs.data(), nullptr);
  pack_signs(both.data(), count, block, in_place.scales.data(), in_place.signs.data(), both.data());
  for (const Signs* result : {&with_lost, &without, &in_place}) {
    EXPECT_EQ(bits_of(result->flat_scales()), bits_of(expected.flat_scales()));
    EXPECT_EQ(result->signs, expected.signs);
  }
  EXPECT_EQ(bits_of(lost), bits_of(expected_lost));
  EXPECT_EQ(bits_of(both), bits_of(expected_lost));

  std::vector<float> expected_values(count), unpacked(count), sum = numbers(count, 5), expected_sum = sum;
  unpack_signs_reference(expected.scales.data(), expected.signs.data(), count, block, expected_values.data());
  unpack_signs(expected.scales.data(), expected.signs.data(), count, block, unpacked.data());
  unpack_signs_add(expected.scales.data(), expected.signs.data(), count, block, sum.data());
  for (size_t i = 0; i < count; ++i) expected_sum[i] += expected_values[i];
  EXPECT_EQ(bits_of(unpacked), bits_of(expected_values));
  EXPECT_EQ(bits_of(sum), bits_of(expected_sum));
}

class PackTest : public ::testing::TestWithParam<std::tuple<size_t, size_t>> {
 protected:
  size_t count() const { return std::get<0>(GetParam()); }
  size_t block() const { return std::get<1>(GetParam()); }
};

TEST_P(PackTest, EqualsItsReferenceBitForBit) {
  expect_int8_as_reference(numbers(count(), 1), block());
  expect_signs_as_reference(numbers(count(), 1), block());
}

TEST_P(PackTest, EqualsItsReferenceForSpecialNumbers) {
  constexpr float kSpecial[] = {0.0f,  -0.0f,  1e-44f, -0x1p-120f, 0x1p-119f,
                                3e38f, -3e38f, 1e-30f, 1.0f,       std::numeric_limits<float>::infinity(),
                                -1.0f};
  for (const float special : kSpecial) {
    for (const size_t every : {1, 3, 300}) {
      std::vector<float> values(count());
      for (size_t i = 0; i < count(); i += every) values[i] = i % 2 == 0 ? special : -special;
      expect_int8_as_reference(values, block());
      expect_signs_as_reference(values, block());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(CountsAndBlocks, PackTest,
                         ::testing::Combine(::testing::Values(0, 1, 31, 33, 256, 257, 1000, 10'007),
                                            ::testing::Values(1, 7, 64, 100, 256)));

TEST(PackInt8, WhatWasLostAndWhatWasNotMakeTheNumberBitForBit) {
  const std::vector<float> values = numbers(100'003, 2);
  Int8 packed(values.size(), 256);
  std::vector<float> lost(values.size()), unpacked(values.size());
  pack_int8(values.data(), values.size(), 256, packed.scales.data(), packed.packed.data(), lost.data());
  unpack_int8(packed.scales.data(), packed.packed.data(), values.size(), 256, unpacked.data());
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(unpacked[i] + lost[i], values[i]) << i;
    ASSERT_LE(std::fabs(lost[i]), packed.scales[i / 256] * 0.5001f) << i;
  }
}

TEST(PackInt8, TheLargestOfABlockIsKeptAndTiesGoToTheEvenNeighbour) {
  const std::vector<float> values = {127, -127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f};
  Int8 packed(values.size(), values.size());
  pack_int8(values.data(), values.size(), values.size(), packed.scales.data(), packed.packed.data(), nullptr);
  EXPECT_THAT(packed.packed, ::testing::ElementsAre(127, -127, 0, 2, 2, 0, -2));
}

std::vector<float> part(const std::vector<float>& values, size_t begin) {
  return {values.begin() + static_cast<std::ptrdiff_t>(begin),
          values.begin() + static_cast<std::ptrdiff_t>(begin + 10)};
}

TEST(Pack, ANumberThatIsNotFiniteSpoilsItsBlockAndNothingOfItIsKept) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    std::vector<float> values(30, -1.0f), lost(30, 9), unpacked(30, 9);
    values[12] = bad;
    Int8 packed(30, 10);
    pack_int8(values.data(), 30, 10, packed.scales.data(), packed.packed.data(), lost.data());
    unpack_int8(packed.scales.data(), packed.packed.data(), 30, 10, unpacked.data());
    EXPECT_THAT(lost, Each(0.0f));
    EXPECT_THAT(part(unpacked, 10), Each(Truly([](float value) { return std::isnan(value); })));
    EXPECT_THAT(part(unpacked, 0), Each(-1.0f));

    Signs signs(30, 10);
    std::fill(lost.begin(), lost.end(), 9.0f);
    pack_signs(values.data(), 30, 10, signs.scales.data(), signs.signs.data(), lost.data());
    unpack_signs(signs.scales.data(), signs.signs.data(), 30, 10, unpacked.data());
    EXPECT_THAT(lost, Each(0.0f));
    EXPECT_THAT(part(unpacked, 10), Each(Truly([](float value) { return !std::isfinite(value); })));
    EXPECT_THAT(part(unpacked, 20), Each(-1.0f));
  }
}

TEST(PackSigns, ElementsBecomeTheMeansOfTheirSide) {
  const std::vector<float> values = {1, -2, 3, 0, -4, 8};
  Signs packed(values.size(), 4);
  std::vector<float> unpacked(values.size()), lost(values.size());
  pack_signs(values.data(), values.size(), 4, packed.scales.data(), packed.signs.data(), lost.data());
  unpack_signs(packed.scales.data(), packed.signs.data(), values.size(), 4, unpacked.data());
  EXPECT_THAT(unpacked, ::testing::ElementsAre(2, -1, 2, -1, -4, 8));
  EXPECT_THAT(lost, ::testing::ElementsAre(-1, -1, 1, 1, 0, 0));
  EXPECT_THAT(packed.signs, ::testing::ElementsAre(0b0101, 0b10));
}

}  // namespace
}  // namespace paceline
