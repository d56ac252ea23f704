#include "paceline/kernels/secant.h"

namespace paceline {

SecantSums secant_sums_reference(const float* weights, const float* previous_weights, const float* gradient,
                                 const float* previous_gradient, double previous_scale, size_t count) {
  SecantSums sums;
  for (size_t i = 0; i < count; ++i) {
    const double move = static_cast<double>(weights[i]) - previous_weights[i];
    sums.move_dot_change += move * (gradient[i] - previous_scale * previous_gradient[i]);
    sums.move_dot_previous += move * (previous_scale * previous_gradient[i]);
    sums.move_squared += move * move;
    sums.gradient_squared += static_cast<double>(gradient[i]) * gradient[i];
  }
  return sums;
}

}  // namespace paceline
