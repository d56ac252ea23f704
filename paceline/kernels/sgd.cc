#include "paceline/kernels/sgd.h"

#include "paceline/kernels/dispatch.h"

namespace paceline {
namespace {

// The branch outside the loop, so that each loop is straight-line code for the vectoriser.
PACELINE_VECTORISED void heavy_ball(float* __restrict w, const float* __restrict gradient, float* __restrict u,
                                    size_t count, float rate, float momentum, float decay, float scale) {
  for (size_t i = 0; i < count; ++i) {
    const float g = scale * gradient[i] + decay * w[i];
    u[i] = momentum * u[i] + g;
    w[i] = w[i] - rate * u[i];
  }
}

PACELINE_VECTORISED void nesterov(float* __restrict w, const float* __restrict gradient, float* __restrict u,
                                  size_t count, float rate, float momentum, float decay, float scale) {
  for (size_t i = 0; i < count; ++i) {
    const float g = scale * gradient[i] + decay * w[i];
    u[i] = momentum * u[i] + g;
    w[i] = w[i] - rate * (g + momentum * u[i]);
  }
}

}  // namespace

void sgd_update(float* weights, const float* gradient, float* momentum, size_t count, const SgdCoefficients& c) {
  const auto update = c.nesterov ? nesterov : heavy_ball;
  update(weights, gradient, momentum, count, c.rate, c.momentum, c.weight_decay, c.gradient_scale);
}

PACELINE_VECTORISED double sum_of_squares(const float* values, size_t count) {
  constexpr size_t kLanes = 16;  // independent sums: wide enough for every instruction set, and the same on each
  double sums[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      sums[lane] += value * value;
    }
  }
  double total = 0;
  for (; i < count; ++i) total += static_cast<double>(values[i]) * values[i];
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace paceline
