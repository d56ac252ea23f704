#include "paceline/kernels/progressive.h"

#include "paceline/kernels/dispatch.h"

namespace paceline {
namespace {

PACELINE_VECTORISED void update(float* __restrict w, const float* __restrict gradient, float* __restrict mc,
                                size_t count, float rate, float momentum, float decay) {
  for (size_t i = 0; i < count; ++i) {
    const float g = gradient[i] + decay * w[i];
    const float sum = g + mc[i];
    w[i] = w[i] - rate * sum;
    mc[i] = momentum * sum;
  }
}

PACELINE_VECTORISED void ahead_of(float* __restrict ahead, const float* __restrict w, const float* __restrict mc,
                                  size_t count, float rate) {
  for (size_t i = 0; i < count; ++i) ahead[i] = w[i] - rate * mc[i];
}

PACELINE_VECTORISED void add(float* __restrict mc, const float* __restrict gradient, size_t count, float factor) {
  for (size_t i = 0; i < count; ++i) mc[i] = mc[i] + factor * gradient[i];
}

}  // namespace

void progressive_update(float* weights, const float* gradient, float* momentum, size_t count,
                        const ProgressiveCoefficients& c) {
  update(weights, gradient, momentum, count, c.rate, c.momentum, c.weight_decay);
}

void look_ahead(float* ahead, const float* weights, const float* momentum, size_t count, float rate) {
  ahead_of(ahead, weights, momentum, count, rate);
}

void merge_late(float* momentum, const float* gradient, size_t count, float factor) {
  add(momentum, gradient, count, factor);
}

}  // namespace paceline
