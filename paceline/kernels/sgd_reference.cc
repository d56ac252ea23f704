#include "paceline/kernels/sgd.h"

namespace paceline {

void sgd_update_reference(float* weights, const float* gradient, float* momentum, size_t count,
                          const SgdCoefficients& c) {
  for (size_t i = 0; i < count; ++i) {
    const float g = c.gradient_scale * gradient[i] + c.weight_decay * weights[i];
    momentum[i] = c.momentum * momentum[i] + g;
    const float direction = c.nesterov ? g + c.momentum * momentum[i] : momentum[i];
    weights[i] = weights[i] - c.rate * direction;
  }
}

}  // namespace paceline
