#include "paceline/kernels/adabound.h"

#include <cmath>

#include "paceline/kernels/dispatch.h"

namespace paceline {
namespace {

PACELINE_VECTORISED void update(float* __restrict w, const float* __restrict gradient, float* __restrict m,
                                float* __restrict v, size_t count, float scale, float decay, float keep1, float take1,
                                float keep2, float take2, float root_scale, float epsilon, float rate, float lower,
                                float upper, float first_scale) {
  for (size_t i = 0; i < count; ++i) {
    const float g = scale * gradient[i] + decay * w[i];
    m[i] = keep1 * m[i] + take1 * g;
    v[i] = keep2 * v[i] + take2 * (g * g);
    const float root = root_scale * std::sqrt(v[i]);
    const float own = rate / (root > epsilon ? root : epsilon);
    const float raised = own > lower ? own : lower;
    const float clipped = raised < upper ? raised : upper;
    w[i] = w[i] - clipped * (first_scale * m[i]);
  }
}

}  // namespace

void adabound_update(float* weights, const float* gradient, float* first, float* second, size_t count,
                     const AdaboundCoefficients& c) {
  const auto f = [](double value) { return static_cast<float>(value); };
  update(weights, gradient, first, second, count, f(c.gradient_scale), f(c.weight_decay), f(c.beta1), f(1 - c.beta1),
         f(c.beta2), f(1 - c.beta2), f(1 / std::sqrt(c.correction2)), f(c.epsilon), f(c.rate), f(c.lower), f(c.upper),
         f(1 / c.correction1));
}

}  // namespace paceline
