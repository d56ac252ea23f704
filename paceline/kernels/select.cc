#include "paceline/kernels/select.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "paceline/core/check.h"
#include "paceline/kernels/dispatch.h"
#include "paceline/kernels/magnitude.h"

namespace paceline {
namespace {

constexpr size_t kGroup = 64;
constexpr size_t kMaskWords = 64;  // masks of a few thousand elements stay in the first-level cache

// Bit i of masks[g] says whether element 64g + i has at least this magnitude. Whole groups only.
PACELINE_VECTORISED void mask_at_least(const float* __restrict values, size_t groups, int32_t magnitude,
                                       uint64_t* __restrict masks) {
  for (size_t group = 0; group < groups; ++group, values += kGroup) {
    uint8_t flags[kGroup];
    for (size_t lane = 0; lane < kGroup; ++lane) flags[lane] = magnitude_of(values[lane]) >= magnitude ? 1 : 0;
    uint64_t mask = 0;
    for (size_t byte = 0; byte < 8; ++byte) {
      uint64_t eight;
      std::memcpy(&eight, flags + byte * 8, 8);
      mask |= (eight * 0x0102040810204080u) >> 56 << (byte * 8);  // eight flags become eight bits
    }
    masks[group] = mask;
  }
}

}  // namespace

PACELINE_VECTORISED size_t count_at_least(const float* values, size_t count, int32_t magnitude) {
  constexpr size_t kRun = 1 << 20;  // counted in 32 bits, which are as wide as the elements
  size_t total = 0;
  for (size_t begin = 0; begin < count; begin += kRun) {
    const size_t end = std::min(count, begin + kRun);
    int32_t found = 0;
    for (size_t i = begin; i < end; ++i) found += magnitude_of(values[i]) >= magnitude ? 1 : 0;
    total += static_cast<size_t>(found);
  }
  return total;
}

size_t select_largest(const float* values, size_t count, int32_t magnitude, size_t equal, size_t most,
                      uint32_t* indices, float* taken) {
  size_t size = 0;
  const auto take = [&](size_t index) {  // false: there is no more room
    if (size == most) return false;
    if (magnitude_of(values[index]) == magnitude) {
      if (equal == 0) return true;
      --equal;
    }
    indices[size] = static_cast<uint32_t>(index);
    taken[size] = values[index];
    ++size;
    return true;
  };
  uint64_t masks[kMaskWords];
  size_t begin = 0;
  while (begin + kGroup <= count) {
    const size_t groups = std::min(kMaskWords, (count - begin) / kGroup);
    mask_at_least(values + begin, groups, magnitude, masks);
    for (size_t group = 0; group < groups; ++group, begin += kGroup)
      for (uint64_t mask = masks[group]; mask != 0; mask &= mask - 1)
        if (!take(begin + static_cast<size_t>(std::countr_zero(mask)))) return size;
  }
  for (; begin < count; ++begin)
    if (magnitude_of(values[begin]) >= magnitude && !take(begin)) return size;
  return size;
}

int32_t magnitude_at_rank(const float* values, size_t count, size_t rank) {
  CHECK_TRUE(rank >= 1 && rank <= count, "rank {} of {} elements", rank, count);
  int32_t magnitude = 0;
  for (int32_t bit = 1 << 30; bit != 0; bit >>= 1)
    if (count_at_least(values, count, magnitude | bit) >= rank) magnitude |= bit;
  return magnitude;
}

}  // namespace paceline
