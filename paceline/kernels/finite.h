// Numbers that are not finite: infinities and NaN. One pass of 4 bytes read per element.
#pragma once

#include <cstddef>

namespace paceline {

size_t count_not_finite(const float* values, size_t count);
size_t count_not_finite_reference(const float* values, size_t count);

}  // namespace paceline
