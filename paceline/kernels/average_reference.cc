#include "paceline/kernels/average.h"

namespace paceline {

void average_update_reference(float* average, const float* weights, size_t count, double keep) {
  for (size_t i = 0; i < count; ++i)
    average[i] = static_cast<float>(keep) * average[i] + static_cast<float>(1 - keep) * weights[i];
}

}  // namespace paceline
