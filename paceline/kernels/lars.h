// LARS on a run of parameters of one layer: SGD whose rate follows the layer's norms.
//
//   u <- momentum·u + local_rate·(scale·gradient + decay·w);   w <- w - u
//   local_rate = rate · eta·‖w‖ / (‖g‖ + decay·‖w‖ + epsilon)
//
// The rate is inside the momentum buffer (MLPerf's order): what was gathered keeps the rate it was gathered with.
// One pass for both norms (8 bytes read per parameter), one for the update (12 read, 8 written). The update is
// elementwise, so its bits do not depend on how callers cut the run; those of the norms do, through the order of sums.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include "paceline/kernels/on_device.h"

namespace paceline {

struct LarsCoefficients {
  float local_rate;
  float momentum;
  float weight_decay;
  float gradient_scale;
};

void lars_update(float* weights, const float* gradient, float* momentum, size_t count, const LarsCoefficients& c);
void lars_update_reference(float* weights, const float* gradient, float* momentum, size_t count,
                           const LarsCoefficients& c);

struct SquaredNorms {
  double weights = 0;
  double gradient = 0;
};

// Σw² and Σg² in double precision and fixed order.
SquaredNorms squared_norms(const float* weights, const float* gradient, size_t count);
SquaredNorms squared_norms_reference(const float* weights, const float* gradient, size_t count);

// The rate of a layer. `rate` itself where there is nothing to adapt to: weights of norm 0 or below epsilon, or a
// denominator of 0 (an all-zero gradient without decay). Finite in single precision whenever `rate` is: a gradient just
// above 0 must not make it infinite. gradient_norm: after gradient_scale.
constexpr double lars_rate(double rate, double eta, double epsilon, double weight_decay, double weight_norm,
                           double gradient_norm) {
  const double denominator = gradient_norm + weight_decay * weight_norm + epsilon;
  if (weight_norm == 0 || weight_norm < epsilon || denominator == 0) return rate;
  constexpr double kMost = std::numeric_limits<float>::max();
  return std::min(rate * (eta * weight_norm / denominator), std::max(rate, kMost));
}

struct LarsStep {
  double rate, eta, epsilon;
  double momentum;
  double weight_decay;  // of tensors that are decayed; the others are not adapted either
  double gradient_scale;
};

// What the momentum is multiplied by where it follows the rate: what was gathered then has the rate of now.
// last_rate: of the step before; 0: there was none.
constexpr double momentum_correction(double rate, double last_rate) { return last_rate > 0 ? rate / last_rate : 1; }

// Norms, rates and update of all tensors of a table (states: momentum); what is prepared serves every update that
// follows. On the device: sums, two numbers for each chunk, aligned to 16 bytes; rates, one for each tensor; last_rate,
// null or the rate of the last step that did not overflow, by which the momentum is corrected.
void lars_prepare_on_device(const DeviceTable& table, const LarsStep& step);
void lars_update_on_device(const DeviceTable& table, double* sums, float* rates, double* last_rate = nullptr);

}  // namespace paceline
