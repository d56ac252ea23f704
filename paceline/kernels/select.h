// The largest elements of an array, for codecs that send only those. Elements are compared by magnitude.h: NaNs are the
// largest, so that they are never left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace paceline {

// Elements of at least this magnitude. Bound by memory.
size_t count_at_least(const float* values, size_t count, int32_t magnitude);
inline size_t count_above(const float* values, size_t count, int32_t magnitude) {
  return magnitude == std::numeric_limits<int32_t>::max() ? 0 : count_at_least(values, count, magnitude + 1);
}

// Those above `magnitude` and the first `equal` of those that have it, in ascending order of their indices; stops when
// it has taken `most`, which is the room there is. Returns how many it took. Bound by memory where that is few in a
// hundred.
size_t select_largest(const float* values, size_t count, int32_t magnitude, size_t equal, size_t most,
                      uint32_t* indices, float* taken);

// The magnitude of the element at `rank`, 1 being the largest. Counts 31 times, once for each bit, whatever the values
// are. REQUIRES: 1 <= rank <= count
int32_t magnitude_at_rank(const float* values, size_t count, size_t rank);

// The definition of right, for tests.
size_t count_at_least_reference(const float* values, size_t count, int32_t magnitude);
size_t select_largest_reference(const float* values, size_t count, int32_t magnitude, size_t equal, size_t most,
                                uint32_t* indices, float* taken);
int32_t magnitude_at_rank_reference(const float* values, size_t count, size_t rank);

}  // namespace paceline
