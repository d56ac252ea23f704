#include "paceline/kernels/pack.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "paceline/kernels/dispatch.h"
#include "paceline/kernels/magnitude.h"

namespace paceline {
namespace {

// Added to a number below 2^22, it leaves the nearest whole number in the last bits of the sum.
constexpr float kRounder = 0x1.8p23f;
constexpr float kSmallestPacked = 0x1p-119f;  // its scale and the inverse of that are ordinary numbers

// Multiplied by this, eight flags, each 0 or 1 in a byte of its own, stand in the highest byte as its bits.
constexpr uint64_t kGatherFlags = 0x0102040810204080u;

constexpr size_t kGroup = 64;  // elements whose signs are found at a time

// Independent sums: wide enough for every instruction set, and the same on each. Spelt out, because the vectoriser
// makes branches of them.
constexpr size_t kLanes = 16;
using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
using Ints = int32_t __attribute__((vector_size(kLanes * sizeof(float))));

}  // namespace

PACELINE_VECTORISED void pack_int8(const float* values, size_t count, size_t block, float* __restrict scales,
                                   int8_t* __restrict packed, float* lost) {
  for (size_t begin = 0; begin < count; begin += block) {
    const size_t end = std::min(count, begin + block);
    int32_t most = 0;
    for (size_t i = begin; i < end; ++i) most = std::max(most, magnitude_of(values[i]));

    if (most < magnitude_of(kSmallestPacked) || most >= kMagnitudeOfInfinity) [[unlikely]] {
      const bool finite = most < kMagnitudeOfInfinity;
      *scales++ = finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
      std::fill(packed + begin, packed + end, int8_t{0});
      if (lost != nullptr && finite) std::memmove(lost + begin, values + begin, (end - begin) * sizeof(float));
      if (lost != nullptr && !finite) std::fill(lost + begin, lost + end, 0.0f);
      continue;
    }
    const float scale = with_magnitude(most) / 127;
    const float inverse = 127 / with_magnitude(most);
    *scales++ = scale;
    if (lost == nullptr) {
      for (size_t i = begin; i < end; ++i) {
        const float sum = values[i] * inverse + kRounder;
        packed[i] = static_cast<int8_t>(std::bit_cast<int32_t>(sum) - std::bit_cast<int32_t>(kRounder));
      }
      continue;
    }
#pragma GCC ivdep
    for (size_t i = begin; i < end; ++i) {
      const float value = values[i];
      const float sum = value * inverse + kRounder;
      packed[i] = static_cast<int8_t>(std::bit_cast<int32_t>(sum) - std::bit_cast<int32_t>(kRounder));
      lost[i] = value - (sum - kRounder) * scale;
    }
  }
}

PACELINE_VECTORISED void unpack_int8(const float* __restrict scales, const int8_t* __restrict packed, size_t count,
                                     size_t block, float* __restrict values) {
  for (size_t begin = 0; begin < count; begin += block) {
    const size_t end = std::min(count, begin + block);
    const float scale = *scales++;
    for (size_t i = begin; i < end; ++i) values[i] = static_cast<float>(packed[i]) * scale;
  }
}

PACELINE_VECTORISED void unpack_int8_add(const float* __restrict scales, const int8_t* __restrict packed, size_t count,
                                         size_t block, float* __restrict values) {
  for (size_t begin = 0; begin < count; begin += block) {
    const size_t end = std::min(count, begin + block);
    const float scale = *scales++;
    for (size_t i = begin; i < end; ++i) values[i] += static_cast<float>(packed[i]) * scale;
  }
}

PACELINE_VECTORISED void pack_signs(const float* values, size_t count, size_t block, SignScales* __restrict scales,
                                    uint8_t* __restrict signs, float* lost) {
  for (size_t begin = 0; begin < count; begin += block) {
    const size_t end = std::min(count, begin + block);
    Floats positive = {}, other = {};
    Ints minus_positives = {};
    for (size_t group = begin; group < end; group += kGroup) {
      // Missing elements are zeros: they change no sum, and are not above zero.
      float padded[kGroup];
      const float* in = values + group;
      const size_t here = std::min(kGroup, end - group);
      if (here < kGroup) {
        std::memset(padded, 0, sizeof(padded));
        std::memcpy(padded, in, here * sizeof(float));
        in = padded;
      }
      for (size_t row = 0; row < kGroup; row += kLanes) {
        Floats value;
        std::memcpy(&value, in + row, sizeof(value));
        const Ints above_zero = value > Floats{};
        minus_positives += above_zero;
        positive += reinterpret_cast<Floats>(reinterpret_cast<Ints>(value) & above_zero);
        other += reinterpret_cast<Floats>(reinterpret_cast<Ints>(value) & ~above_zero);
      }
      uint8_t flags[kGroup];
      for (size_t lane = 0; lane < kGroup; ++lane) flags[lane] = in[lane] > 0 ? 1 : 0;
      for (size_t byte = 0; byte * 8 < here; ++byte) {
        uint64_t eight;
        std::memcpy(&eight, flags + byte * 8, 8);
        *signs++ = static_cast<uint8_t>((eight * kGatherFlags) >> 56);
      }
    }
    float positive_sum = 0, other_sum = 0;
    size_t positives = 0;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      positives += static_cast<size_t>(-minus_positives[lane]);
      positive_sum += positive[lane];
      other_sum += other[lane];
    }
    const size_t others = end - begin - positives;
    const SignScales mean = {positives > 0 ? positive_sum / static_cast<float>(positives) : 0.0f,
                             others > 0 ? other_sum / static_cast<float>(others) : 0.0f};
    *scales++ = mean;
    if (lost == nullptr) continue;
    if (!std::isfinite(mean.positive) || !std::isfinite(mean.other)) [[unlikely]] {
      std::fill(lost + begin, lost + end, 0.0f);
      continue;
    }
#pragma GCC ivdep
    for (size_t i = begin; i < end; ++i) lost[i] = values[i] - (values[i] > 0 ? mean.positive : mean.other);
  }
}

#define PACELINE_UNPACK_SIGNS(name, assign)                                                                          \
  PACELINE_VECTORISED void name(const SignScales* __restrict scales, const uint8_t* __restrict signs, size_t count,  \
                                size_t block, float* __restrict values) {                                            \
    constexpr size_t kWord = 32;                                                                                     \
    for (size_t begin = 0; begin < count; begin += block) {                                                          \
      const size_t end = std::min(count, begin + block);                                                             \
      const auto [positive, other] = *scales++;                                                                      \
      size_t i = begin;                                                                                              \
      for (; i + kWord <= end; i += kWord, signs += kWord / 8) {                                                     \
        uint32_t word;                                                                                               \
        std::memcpy(&word, signs, sizeof(word));                                                                     \
        for (uint32_t bit = 0; bit < kWord; ++bit) values[i + bit] assign(word&(1u << bit)) != 0 ? positive : other; \
      }                                                                                                              \
      for (size_t bit = 0; i < end; ++i, ++bit)                                                                      \
        values[i] assign(signs[bit / 8] >> (bit % 8) & 1) != 0 ? positive : other;                                   \
      signs += bytes_of_signs((end - begin) % kWord);                                                                \
    }                                                                                                                \
  }
PACELINE_UNPACK_SIGNS(unpack_signs, =)
PACELINE_UNPACK_SIGNS(unpack_signs_add, +=)
#undef PACELINE_UNPACK_SIGNS

}  // namespace paceline
