#include "paceline/kernels/running_mean.h"

#include <cstring>

#include "paceline/kernels/dispatch.h"

namespace paceline {
namespace {

PACELINE_VECTORISED void add(float* __restrict m, const float* __restrict g, size_t count, float share) {
  for (size_t i = 0; i < count; ++i) m[i] = m[i] + share * (g[i] - m[i]);
}

PACELINE_VECTORISED void add_late(float* __restrict m, float* __restrict mc, const float* __restrict g, size_t count,
                                  float share, float factor) {
  for (size_t i = 0; i < count; ++i) {
    const float d = share * (g[i] - m[i]);
    m[i] = m[i] + d;
    mc[i] = mc[i] + factor * d;
  }
}

// Spelled as vectors, as in lars.cc: the order of additions is the same on every instruction set.
using Floats = float __attribute__((vector_size(32)));
using Doubles = double __attribute__((vector_size(64)));
constexpr size_t kLanes = 8;

PACELINE_VECTORISED void add_noise(float* m, const float* g, size_t count, float share, double* totals) {
  Doubles norms[2] = {}, dots[2] = {};
  size_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    for (size_t half = 0; half < 2; ++half) {
      Floats mean, gradient;
      std::memcpy(&mean, m + i + half * kLanes, sizeof(mean));
      std::memcpy(&gradient, g + i + half * kLanes, sizeof(gradient));
      const Floats before = gradient - mean;
      mean = mean + share * before;
      const Floats after = gradient - mean;
      std::memcpy(m + i + half * kLanes, &mean, sizeof(mean));
      const Doubles wide_mean = __builtin_convertvector(mean, Doubles);
      norms[half] += wide_mean * wide_mean;
      dots[half] += __builtin_convertvector(before, Doubles) * __builtin_convertvector(after, Doubles);
    }
  }
  double norm = 0, dot = 0;
  for (; i < count; ++i) {
    const float before = g[i] - m[i];
    m[i] = m[i] + share * before;
    const float after = g[i] - m[i];
    norm += static_cast<double>(m[i]) * m[i];
    dot += static_cast<double>(before) * after;
  }
  for (size_t half = 0; half < 2; ++half) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      norm += norms[half][lane];
      dot += dots[half][lane];
    }
  }
  totals[0] = norm;
  totals[1] = dot;
}

}  // namespace

void running_mean_add(float* mean, const float* gradient, size_t count, float share) {
  add(mean, gradient, count, share);
}

MeanNoise running_mean_add_noise(float* mean, const float* gradient, size_t count, float share) {
  double totals[2];
  add_noise(mean, gradient, count, share, totals);
  return {.mean_norm2 = totals[0], .spread = totals[1]};
}

void running_mean_add_late(float* mean, float* momentum, const float* gradient, size_t count, float share,
                           float factor) {
  add_late(mean, momentum, gradient, count, share, factor);
}

}  // namespace paceline
