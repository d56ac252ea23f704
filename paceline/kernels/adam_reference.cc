#include <cmath>

#include "paceline/kernels/adam.h"

namespace paceline {

void adam_update_reference(float* weights, const float* gradient, float* first, float* second, size_t count,
                           const AdamCoefficients& c) {
  const auto keep1 = static_cast<float>(c.beta1), take1 = static_cast<float>(1 - c.beta1);
  const auto keep2 = static_cast<float>(c.beta2), take2 = static_cast<float>(1 - c.beta2);
  const auto root_scale = static_cast<float>(1 / std::sqrt(c.correction2));
  const auto rate = static_cast<float>(c.rate / c.correction1);
  for (size_t i = 0; i < count; ++i) {
    float g = static_cast<float>(c.gradient_scale) * gradient[i];
    if (!c.decoupled) g += static_cast<float>(c.weight_decay) * weights[i];
    first[i] = keep1 * first[i] + take1 * g;
    second[i] = keep2 * second[i] + take2 * (g * g);
    if (c.decoupled) weights[i] = static_cast<float>(1 - c.rate * c.weight_decay) * weights[i];
    weights[i] -= rate * (first[i] / (root_scale * std::sqrt(second[i]) + static_cast<float>(c.epsilon)));
  }
}

}  // namespace paceline
