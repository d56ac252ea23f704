#include "paceline/kernels/progressive.h"

namespace paceline {

void progressive_update_reference(float* weights, const float* gradient, float* momentum, size_t count,
                                  const ProgressiveCoefficients& c) {
  for (size_t i = 0; i < count; ++i) {
    const float g = gradient[i] + c.weight_decay * weights[i];
    weights[i] = weights[i] - c.rate * (g + momentum[i]);
    momentum[i] = c.momentum * (momentum[i] + g);
  }
}

void look_ahead_reference(float* ahead, const float* weights, const float* momentum, size_t count, float rate) {
  for (size_t i = 0; i < count; ++i) ahead[i] = weights[i] - rate * momentum[i];
}

void merge_late_reference(float* momentum, const float* gradient, size_t count, float factor) {
  for (size_t i = 0; i < count; ++i) momentum[i] = momentum[i] + factor * gradient[i];
}

}  // namespace paceline
