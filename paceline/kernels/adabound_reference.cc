#include <algorithm>
#include <cmath>

#include "paceline/kernels/adabound.h"

namespace paceline {

void adabound_update_reference(float* weights, const float* gradient, float* first, float* second, size_t count,
                               const AdaboundCoefficients& c) {
  const auto keep1 = static_cast<float>(c.beta1), take1 = static_cast<float>(1 - c.beta1);
  const auto keep2 = static_cast<float>(c.beta2), take2 = static_cast<float>(1 - c.beta2);
  const auto first_scale = static_cast<float>(1 / c.correction1);
  const auto root_scale = static_cast<float>(1 / std::sqrt(c.correction2));
  for (size_t i = 0; i < count; ++i) {
    const float g =
        static_cast<float>(c.gradient_scale) * gradient[i] + static_cast<float>(c.weight_decay) * weights[i];
    first[i] = keep1 * first[i] + take1 * g;
    second[i] = keep2 * second[i] + take2 * (g * g);
    const float root = std::max(root_scale * std::sqrt(second[i]), static_cast<float>(c.epsilon));
    const float rate =
        std::clamp(static_cast<float>(c.rate) / root, static_cast<float>(c.lower), static_cast<float>(c.upper));
    weights[i] -= rate * (first_scale * first[i]);
  }
}

}  // namespace paceline
