#include "paceline/core/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace paceline {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// The value of a binary16, by the definition: (-1)^s · 2^(e-15) · 1.m, or (-1)^s · 2^-14 · 0.m when e = 0.
double f16_by_definition(uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10) & 31;
  const double fraction = (bits & 1023u) / 1024.0;
  const double magnitude = exponent == 0    ? std::ldexp(fraction, -14)
                           : exponent == 31 ? static_cast<double>(kInfinity)
                                            : std::ldexp(1 + fraction, exponent - 15);
  return bits & 0x8000u ? -magnitude : magnitude;
}

bool f16_is_nan(uint32_t bits) { return (bits & 0x7fffu) > 0x7c00u; }
bool bf16_is_nan(uint32_t bits) { return (bits & 0x7fffu) > 0x7f80u; }

TEST(F16, EveryValueIsItsDefinitionAndRoundTrips) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = float_from_f16(static_cast<uint16_t>(bits));
    if (f16_is_nan(bits)) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_TRUE(f16_is_nan(f16_from_float(value))) << bits;
      EXPECT_EQ(f16_from_float(value) & 0x8000u, bits & 0x8000u) << bits;
    } else {
      EXPECT_EQ(static_cast<double>(value), f16_by_definition(bits)) << bits;
      EXPECT_EQ(f16_from_float(value), bits) << bits;
    }
  }
}

TEST(F16, RoundsBetweenEveryPairOfNeighboursToTheNearerAndTiesToEven) {
  for (uint32_t low = 0; low < 0x7bff; ++low) {
    const double below = f16_by_definition(low), above = f16_by_definition(low + 1);
    const auto middle = static_cast<float>((below + above) / 2);  // exact: a float has room for one bit more
    ASSERT_EQ(f16_from_float(middle), low % 2 == 0 ? low : low + 1) << low;
    ASSERT_EQ(f16_from_float(std::nextafter(middle, 0.0f)), low) << low;
    ASSERT_EQ(f16_from_float(std::nextafter(middle, kInfinity)), low + 1) << low;
    ASSERT_EQ(f16_from_float(-middle), 0x8000u | (low % 2 == 0 ? low : low + 1)) << low;
  }
}

TEST(F16, OverflowsToInfinityFromHalfwayBeyondTheLargest) {
  EXPECT_EQ(f16_from_float(65504.0f), 0x7bff);
  EXPECT_EQ(f16_from_float(std::nextafter(65520.0f, 0.0f)), 0x7bff);
  EXPECT_EQ(f16_from_float(65520.0f), 0x7c00);
  EXPECT_EQ(f16_from_float(-65520.0f), 0xfc00);
  EXPECT_EQ(f16_from_float(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(f16_from_float(kInfinity), 0x7c00);
  EXPECT_EQ(f16_from_float(-kInfinity), 0xfc00);
}

TEST(F16, UnderflowsToZeroAndKeepsTheSign) {
  EXPECT_EQ(f16_from_float(0x1p-24f), 0x0001);  // the smallest subnormal
  EXPECT_EQ(f16_from_float(0x1p-25f), 0x0000);  // a tie: to even
  EXPECT_EQ(f16_from_float(std::nextafter(0x1p-25f, 1.0f)), 0x0001);
  EXPECT_EQ(f16_from_float(-0x1p-25f), 0x8000);
  EXPECT_EQ(f16_from_float(0.0f), 0x0000);
  EXPECT_EQ(f16_from_float(-0.0f), 0x8000);
  EXPECT_EQ(f16_from_float(std::numeric_limits<float>::denorm_min()), 0x0000);
  EXPECT_EQ(f16_from_float(std::nextafter(0x1p-14f, 0.0f)), 0x0400);  // rounds up to the smallest normal
}

TEST(Bf16, EveryValueRoundTrips) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = float_from_bf16(static_cast<uint16_t>(bits));
    if (bf16_is_nan(bits)) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_TRUE(bf16_is_nan(bf16_from_float(value))) << bits;
      EXPECT_EQ(bf16_from_float(value) & 0x8000u, bits & 0x8000u) << bits;
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(value), bits << 16);
      EXPECT_EQ(bf16_from_float(value), bits) << bits;
    }
  }
}

TEST(Bf16, RoundsBetweenEveryPairOfNeighboursToTheNearerAndTiesToEven) {
  for (uint32_t low = 0; low < 0x7f80; ++low) {  // the last pair is the largest number and infinity
    const uint32_t middle = (low << 16) | 0x8000u;
    ASSERT_EQ(bf16_from_float(std::bit_cast<float>(middle)), low % 2 == 0 ? low : low + 1) << low;
    ASSERT_EQ(bf16_from_float(std::bit_cast<float>(middle - 1)), low) << low;
    ASSERT_EQ(bf16_from_float(std::bit_cast<float>(middle + 1)), low + 1) << low;
    ASSERT_EQ(bf16_from_float(std::bit_cast<float>(0x80000000u | (middle + 1))), 0x8000u | (low + 1)) << low;
  }
}

TEST(Half, NaNWhosePayloadIsOnlyInTheLowBitsStaysNaN) {
  const auto low_payload = std::bit_cast<float>(0x7f800001u);
  EXPECT_TRUE(f16_is_nan(f16_from_float(low_payload)));
  EXPECT_TRUE(bf16_is_nan(bf16_from_float(low_payload)));
  EXPECT_TRUE(f16_is_nan(f16_from_float(-kNaN)));
  EXPECT_TRUE(bf16_is_nan(bf16_from_float(std::bit_cast<float>(0xffffffffu))));
}

TEST(Half, ConvertsAtCompileTime) {
  static_assert(f16_from_float(1.0f) == 0x3c00 && float_from_f16(0x3c00) == 1.0f);
  static_assert(bf16_from_float(1.0f) == 0x3f80 && float_from_bf16(0x3f80) == 1.0f);
  static_assert(f16_from_float(0x1p-15f) == 0x0200 && float_from_f16(0x0200) == 0x1p-15f);
  EXPECT_EQ(f16_from_float(1.0f), 0x3c00);  // and says the same at run time
}

}  // namespace
}  // namespace paceline
