#include "paceline/kernels/lars.h"

namespace paceline {

void lars_update_reference(float* weights, const float* gradient, float* momentum, size_t count,
                           const LarsCoefficients& c) {
  for (size_t i = 0; i < count; ++i) {
    const float g = c.gradient_scale * gradient[i] + c.weight_decay * weights[i];
    momentum[i] = c.momentum * momentum[i] + c.local_rate * g;
    weights[i] = weights[i] - momentum[i];
  }
}

SquaredNorms squared_norms_reference(const float* weights, const float* gradient, size_t count) {
  SquaredNorms norms;
  for (size_t i = 0; i < count; ++i) {
    norms.weights += static_cast<double>(weights[i]) * weights[i];
    norms.gradient += static_cast<double>(gradient[i]) * gradient[i];
  }
  return norms;
}

}  // namespace paceline
