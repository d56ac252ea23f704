#include "paceline/kernels/half_convert.h"

#include <gmock/gmock.h>

#include <bit>
#include <functional>
#include <numeric>
#include <vector>

#include "paceline/core/random.h"

namespace paceline {
namespace {

std::vector<uint32_t> bits_of(const std::vector<float>& floats) {
  std::vector<uint32_t> bits(floats.size());
  std::ranges::transform(floats, bits.begin(), [](float value) { return std::bit_cast<uint32_t>(value); });
  return bits;
}

// Every exponent, with fractions around those where rounding to a half changes, NaNs of all kinds among them; and
// numbers at random.
std::vector<float> telling_floats() {
  std::vector<uint32_t> fractions = {0, 1, 0x400000, 0x400001, 0x7fffff, 0x3fffff};
  for (int bit = 0; bit < 23; ++bit)
    for (const uint32_t near : {(1u << bit) - 1, 1u << bit, (1u << bit) + 1, (3u << bit) & 0x7fffffu})
      fractions.push_back(near & 0x7fffffu);
  std::vector<float> floats;
  for (uint32_t sign_and_exponent = 0; sign_and_exponent < 512; ++sign_and_exponent)
    for (const uint32_t fraction : fractions)
      floats.push_back(std::bit_cast<float>((sign_and_exponent << 23) | fraction));
  for (uint64_t i = 0; i < 200'000; ++i)
    floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(RandomKey(1).bits(i))));
  return floats;
}

TEST(HalfConvert, EveryHalfBecomesTheFloatOfItsReference) {
  std::vector<uint16_t> halves(65'536);
  std::iota(halves.begin(), halves.end(), uint16_t{0});
  std::vector<float> floats(halves.size()), expected(halves.size());
  floats_from_f16(floats.data(), halves.data(), halves.size());
  floats_from_f16_reference(expected.data(), halves.data(), halves.size());
  EXPECT_EQ(bits_of(floats), bits_of(expected));
  floats_from_bf16(floats.data(), halves.data(), halves.size());
  floats_from_bf16_reference(expected.data(), halves.data(), halves.size());
  EXPECT_EQ(bits_of(floats), bits_of(expected));
}

TEST(HalfConvert, FloatsBecomeTheHalvesOfTheirReference) {
  const std::vector<float> floats = telling_floats();
  std::vector<uint16_t> halves(floats.size()), expected(floats.size());
  f16_from_floats(halves.data(), floats.data(), floats.size());
  f16_from_floats_reference(expected.data(), floats.data(), floats.size());
  EXPECT_EQ(halves, expected);
  bf16_from_floats(halves.data(), floats.data(), floats.size());
  bf16_from_floats_reference(expected.data(), floats.data(), floats.size());
  EXPECT_EQ(halves, expected);
}

TEST(HalfConvert, WritesAsManyAsItIsToldAtEverySize) {
  for (size_t count = 0; count < 70; ++count) {
    const std::vector<float> ones(count + 1, 1.0f);
    std::vector<uint16_t> f16(count + 1, 7), bf16(count + 1, 7);
    f16_from_floats(f16.data(), ones.data(), count);
    bf16_from_floats(bf16.data(), ones.data(), count);
    std::vector<float> from_f16(count + 1, 7), from_bf16(count + 1, 7);
    floats_from_f16(from_f16.data(), f16.data(), count);
    floats_from_bf16(from_bf16.data(), bf16.data(), count);
    EXPECT_EQ(std::ranges::count(f16, 0x3c00), static_cast<std::ptrdiff_t>(count));
    EXPECT_EQ(std::ranges::count(bf16, 0x3f80), static_cast<std::ptrdiff_t>(count));
    EXPECT_EQ(std::ranges::count(from_f16, 1.0f), static_cast<std::ptrdiff_t>(count));
    EXPECT_EQ(std::ranges::count(from_bf16, 1.0f), static_cast<std::ptrdiff_t>(count));
    EXPECT_EQ(f16[count] + bf16[count], 14) << count;
    EXPECT_EQ(from_f16[count] + from_bf16[count], 14) << count;
  }
}

}  // namespace
}  // namespace paceline
