// AdaBound on a run of parameters: Adam whose rates are kept between two bounds (adabound_bounds.h).
//
//   g <- scale·gradient + decay·w;   m <- beta1·m + (1 - beta1)·g;   v <- beta2·v + (1 - beta2)·g²
//   w <- w - clip(rate / √(v / correction2), lower, upper) · m / correction1
//
// √v below `epsilon` counts as epsilon: where all gradients were 0, the rate stays finite even if `upper` is not.
// One pass: 16 bytes read and 12 written per parameter. Elementwise, so the bits do not depend on how callers cut the
// run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "paceline/kernels/adabound_bounds.h"
#include "paceline/kernels/on_device.h"
#include "paceline/kernels/whole_power.h"

namespace paceline {

struct AdaboundCoefficients {
  double rate;
  double lower, upper;  // upper may be infinite
  double beta1;
  double beta2;
  double epsilon;  // > 0
  double weight_decay;
  double correction1;  // 1 - beta1^t at step t = 1, 2, ...; 1: no correction of the bias towards 0
  double correction2;  // 1 - beta2^t
  double gradient_scale;
};

// Coefficients of which bounds and corrections follow from the number of the step, t = 1, 2, ... (Luo's).
struct AdaboundByStep {
  AdaboundCoefficients c;  // those four do not matter
  double final_rate, gamma;

  constexpr AdaboundCoefficients at(int64_t t) const {
    AdaboundCoefficients now = c;
    const RateBounds bounds = adabound_bounds(final_rate, gamma, static_cast<double>(t));
    now.lower = bounds.lower;
    now.upper = bounds.upper;
    now.correction1 = 1 - whole_power(c.beta1, t);
    now.correction2 = 1 - whole_power(c.beta2, t);
    return now;
  }
};

void adabound_update(float* weights, const float* gradient, float* first, float* second, size_t count,
                     const AdaboundCoefficients& c);
void adabound_update_reference(float* weights, const float* gradient, float* first, float* second, size_t count,
                               const AdaboundCoefficients& c);

// Of all tensors of a table at once, with the same bits (states: first, second). What is prepared serves every
// update that follows; c.weight_decay is for tensors that are decayed. With AdaboundByStep the number of the step is
// what the update counts at *steps, on the device; one that overflowed is not counted. Else `steps` is null.
void adabound_prepare_on_device(const DeviceTable& table, const AdaboundCoefficients& c);
void adabound_prepare_on_device(const DeviceTable& table, const AdaboundByStep& by_step);
void adabound_update_on_device(const DeviceTable& table, int64_t* steps);

}  // namespace paceline
