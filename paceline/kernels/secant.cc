#include "paceline/kernels/secant.h"

#include "paceline/kernels/dispatch.h"

namespace paceline {
namespace {

PACELINE_VECTORISED void sums(const float* __restrict w, const float* __restrict w_before, const float* __restrict g,
                              const float* __restrict g_before, double scale, size_t count, double* __restrict totals) {
  constexpr size_t kLanes = 8;  // independent sums, the same on every instruction set
  double changes[kLanes] = {}, before[kLanes] = {}, moves[kLanes] = {}, gradients[kLanes] = {};
  const size_t whole = count - count % kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double now = g[i + lane];
      const double last = scale * g_before[i + lane];
      const double move = static_cast<double>(w[i + lane]) - w_before[i + lane];
      changes[lane] += move * (now - last);
      before[lane] += move * last;
      moves[lane] += move * move;
      gradients[lane] += now * now;
    }
  }
  double change = 0, last_dot = 0, squared_move = 0, squared_gradient = 0;
  for (size_t i = whole; i < count; ++i) {
    const double now = g[i];
    const double last = scale * g_before[i];
    const double move = static_cast<double>(w[i]) - w_before[i];
    change += move * (now - last);
    last_dot += move * last;
    squared_move += move * move;
    squared_gradient += now * now;
  }
  for (size_t lane = 0; lane < kLanes; ++lane) {
    change += changes[lane];
    last_dot += before[lane];
    squared_move += moves[lane];
    squared_gradient += gradients[lane];
  }
  totals[0] = change;
  totals[1] = last_dot;
  totals[2] = squared_move;
  totals[3] = squared_gradient;
}

}  // namespace

SecantSums secant_sums(const float* weights, const float* previous_weights, const float* gradient,
                       const float* previous_gradient, double previous_scale, size_t count) {
  double totals[4];
  sums(weights, previous_weights, gradient, previous_gradient, previous_scale, count, totals);
  return {.move_dot_change = totals[0],
          .move_dot_previous = totals[1],
          .move_squared = totals[2],
          .gradient_squared = totals[3]};
}

}  // namespace paceline
