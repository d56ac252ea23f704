#include <cmath>

#include "paceline/kernels/finite.h"

namespace paceline {

size_t count_not_finite_reference(const float* values, size_t count) {
  size_t found = 0;
  for (size_t i = 0; i < count; ++i) found += std::isfinite(values[i]) ? 0 : 1;
  return found;
}

}  // namespace paceline
