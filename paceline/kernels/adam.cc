#include "paceline/kernels/adam.h"

#include <cmath>

#include "paceline/kernels/dispatch.h"

namespace paceline {
namespace {

// One loop for both: Adam does not shrink (1), AdamW adds nothing to the gradient (0).
PACELINE_VECTORISED void update(float* __restrict w, const float* __restrict gradient, float* __restrict m,
                                float* __restrict v, size_t count, float scale, float decay, float shrink, float keep1,
                                float take1, float keep2, float take2, float root_scale, float epsilon, float rate) {
  for (size_t i = 0; i < count; ++i) {
    const float g = scale * gradient[i] + decay * w[i];
    m[i] = keep1 * m[i] + take1 * g;
    v[i] = keep2 * v[i] + take2 * (g * g);
    w[i] = shrink * w[i] - rate * (m[i] / (root_scale * std::sqrt(v[i]) + epsilon));
  }
}

}  // namespace

void adam_update(float* weights, const float* gradient, float* first, float* second, size_t count,
                 const AdamCoefficients& c) {
  const auto f = [](double value) { return static_cast<float>(value); };
  update(weights, gradient, first, second, count, f(c.gradient_scale), c.decoupled ? 0 : f(c.weight_decay),
         c.decoupled ? f(1 - c.rate * c.weight_decay) : 1, f(c.beta1), f(1 - c.beta1), f(c.beta2), f(1 - c.beta2),
         f(1 / std::sqrt(c.correction2)), f(c.epsilon), f(c.rate / c.correction1));
}

}  // namespace paceline
