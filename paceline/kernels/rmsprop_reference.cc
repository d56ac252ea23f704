#include <cmath>

#include "paceline/kernels/rmsprop.h"

namespace paceline {

void rmsprop_update_reference(float* weights, const float* gradient, float* second, float* momentum, size_t count,
                              const RmspropCoefficients& c) {
  const auto keep = static_cast<float>(c.alpha), take = static_cast<float>(1 - c.alpha);
  for (size_t i = 0; i < count; ++i) {
    const float g =
        static_cast<float>(c.gradient_scale) * gradient[i] + static_cast<float>(c.weight_decay) * weights[i];
    second[i] = keep * second[i] + take * (g * g);
    const float step = g / (std::sqrt(second[i]) + static_cast<float>(c.epsilon));
    momentum[i] = static_cast<float>(c.momentum) * momentum[i] + step;
    weights[i] -= static_cast<float>(c.rate) * momentum[i];
  }
}

}  // namespace paceline
