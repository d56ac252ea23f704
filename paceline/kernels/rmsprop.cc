#include "paceline/kernels/rmsprop.h"

#include <cmath>

#include "paceline/kernels/dispatch.h"

namespace paceline {
namespace {

PACELINE_VECTORISED void update(float* __restrict w, const float* __restrict gradient, float* __restrict v,
                                float* __restrict u, size_t count, float scale, float decay, float keep, float take,
                                float epsilon, float momentum, float rate) {
  for (size_t i = 0; i < count; ++i) {
    const float g = scale * gradient[i] + decay * w[i];
    v[i] = keep * v[i] + take * (g * g);
    u[i] = momentum * u[i] + g / (std::sqrt(v[i]) + epsilon);
    w[i] = w[i] - rate * u[i];
  }
}

}  // namespace

void rmsprop_update(float* weights, const float* gradient, float* second, float* momentum, size_t count,
                    const RmspropCoefficients& c) {
  const auto f = [](double value) { return static_cast<float>(value); };
  update(weights, gradient, second, momentum, count, f(c.gradient_scale), f(c.weight_decay), f(c.alpha), f(1 - c.alpha),
         f(c.epsilon), f(c.momentum), f(c.rate));
}

}  // namespace paceline
