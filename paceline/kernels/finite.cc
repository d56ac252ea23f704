#include "paceline/kernels/finite.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "paceline/kernels/dispatch.h"

namespace paceline {
namespace {

constexpr uint32_t kExponent = 0x7f800000;  // all of its bits are set in what is not finite
constexpr size_t kBlock = 1 << 16;          // counted in 32 bits, so that counters are as wide as elements

PACELINE_VECTORISED uint32_t count_block(const float* values, size_t count) {
  uint32_t found = 0;
  for (size_t i = 0; i < count; ++i) found += (std::bit_cast<uint32_t>(values[i]) & kExponent) == kExponent ? 1u : 0u;
  return found;
}

}  // namespace

size_t count_not_finite(const float* values, size_t count) {
  size_t found = 0;
  for (size_t i = 0; i < count; i += kBlock) found += count_block(values + i, std::min(kBlock, count - i));
  return found;
}

}  // namespace paceline
