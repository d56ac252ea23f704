#include "paceline/kernels/lars.h"

#include <cstring>

#include "paceline/kernels/dispatch.h"

namespace paceline {
namespace {

PACELINE_VECTORISED void update(float* __restrict w, const float* __restrict gradient, float* __restrict u,
                                size_t count, float local_rate, float momentum, float decay, float scale) {
  for (size_t i = 0; i < count; ++i) {
    const float g = scale * gradient[i] + decay * w[i];
    u[i] = momentum * u[i] + local_rate * g;
    w[i] = w[i] - u[i];
  }
}

// Spelled as vectors, because the compiler leaves one of the two sums scalar otherwise. Narrower instruction sets split
// them; the order of additions is the same on each.
using EightFloats = float __attribute__((vector_size(32)));
using Doubles = double __attribute__((vector_size(64)));
constexpr size_t kNormLanes = 8;

PACELINE_VECTORISED void sum_squares(const float* w, const float* g, size_t count, double* totals) {
  Doubles w_sums[2] = {}, g_sums[2] = {};
  size_t i = 0;
  for (; i + 2 * kNormLanes <= count; i += 2 * kNormLanes) {
    for (size_t half = 0; half < 2; ++half) {
      EightFloats weights, gradient;
      std::memcpy(&weights, w + i + half * kNormLanes, sizeof(weights));
      std::memcpy(&gradient, g + i + half * kNormLanes, sizeof(gradient));
      const Doubles wide_weights = __builtin_convertvector(weights, Doubles);
      const Doubles wide_gradient = __builtin_convertvector(gradient, Doubles);
      w_sums[half] += wide_weights * wide_weights;
      g_sums[half] += wide_gradient * wide_gradient;
    }
  }
  double w_total = 0, g_total = 0;
  for (; i < count; ++i) {
    w_total += static_cast<double>(w[i]) * w[i];
    g_total += static_cast<double>(g[i]) * g[i];
  }
  for (size_t half = 0; half < 2; ++half) {
    for (size_t lane = 0; lane < kNormLanes; ++lane) {
      w_total += w_sums[half][lane];
      g_total += g_sums[half][lane];
    }
  }
  totals[0] = w_total;
  totals[1] = g_total;
}

}  // namespace

void lars_update(float* weights, const float* gradient, float* momentum, size_t count, const LarsCoefficients& c) {
  update(weights, gradient, momentum, count, c.local_rate, c.momentum, c.weight_decay, c.gradient_scale);
}

SquaredNorms squared_norms(const float* weights, const float* gradient, size_t count) {
  double totals[2];
  sum_squares(weights, gradient, count, totals);
  return {.weights = totals[0], .gradient = totals[1]};
}

}  // namespace paceline
