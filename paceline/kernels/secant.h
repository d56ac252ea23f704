// What the last move of the weights tells of the curvature: the sums that Barzilai and Borwein's rate is made of.
#pragma once

#include <cstddef>

namespace paceline {

struct SecantSums {
  double move_dot_change = 0;    // <w - w', g - g'>
  double move_dot_previous = 0;  // <w - w', g'>
  double move_squared = 0;       // ‖w - w'‖²
  double gradient_squared = 0;   // ‖g‖²
};

// One pass of 16 bytes read per parameter, in double precision and fixed order. g' is multiplied by previous_scale
// first.
SecantSums secant_sums(const float* weights, const float* previous_weights, const float* gradient,
                       const float* previous_gradient, double previous_scale, size_t count);
SecantSums secant_sums_reference(const float* weights, const float* previous_weights, const float* gradient,
                                 const float* previous_gradient, double previous_scale, size_t count);

}  // namespace paceline
