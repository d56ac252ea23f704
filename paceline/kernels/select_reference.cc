#include <algorithm>
#include <functional>
#include <vector>

#include "paceline/kernels/magnitude.h"
#include "paceline/kernels/select.h"

namespace paceline {

size_t count_at_least_reference(const float* values, size_t count, int32_t magnitude) {
  return static_cast<size_t>(
      std::count_if(values, values + count, [&](float value) { return magnitude_of(value) >= magnitude; }));
}

size_t select_largest_reference(const float* values, size_t count, int32_t magnitude, size_t equal, size_t most,
                                uint32_t* indices, float* taken) {
  size_t size = 0;
  for (size_t i = 0; i < count && size < most; ++i) {
    const bool is_equal = magnitude_of(values[i]) == magnitude;
    if (magnitude_of(values[i]) < magnitude || (is_equal && equal == 0)) continue;
    if (is_equal) --equal;
    indices[size] = static_cast<uint32_t>(i);
    taken[size++] = values[i];
  }
  return size;
}

int32_t magnitude_at_rank_reference(const float* values, size_t count, size_t rank) {
  std::vector<int32_t> magnitudes(count);
  std::transform(values, values + count, magnitudes.begin(), magnitude_of);
  std::ranges::sort(magnitudes, std::greater());
  return magnitudes[rank - 1];
}

}  // namespace paceline
