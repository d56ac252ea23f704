#include "paceline/codecs/error_feedback.h"

#include "paceline/core/check.h"
#include "paceline/kernels/dispatch.h"

namespace paceline {
namespace {

PACELINE_VECTORISED void replace(float* __restrict g, float* __restrict u, size_t count, float m) {
  for (size_t i = 0; i < count; ++i) {
    u[i] = m * u[i] + g[i];
    g[i] = u[i];
  }
}

PACELINE_VECTORISED void stop(float* __restrict u, const float* __restrict lost, size_t count) {
  for (size_t i = 0; i < count; ++i) u[i] = lost[i] == 0 ? 0.0f : u[i];
}

}  // namespace

void replace_by_momentum(std::span<float> gradient, std::span<float> u, float m) {
  CHECK_EQ(gradient.size(), u.size());
  replace(gradient.data(), u.data(), u.size(), m);
}

void stop_where_sent(std::span<float> u, std::span<const float> lost) {
  CHECK_EQ(u.size(), lost.size());
  stop(u.data(), lost.data(), u.size());
}

}  // namespace paceline
