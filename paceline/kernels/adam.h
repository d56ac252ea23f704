// Adam and AdamW on a run of parameters.
//
//   Adam:   g <- scale·gradient + decay·w          AdamW:   g <- scale·gradient;   w <- w - rate·decay·w
//   m <- beta1·m + (1 - beta1)·g;   v <- beta2·v + (1 - beta2)·g²
//   w <- w - rate · (m / correction1) / (√(v / correction2) + epsilon)
//
// One pass: 16 bytes read and 12 written per parameter. Elementwise, so the bits do not depend on how callers cut the
// run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "paceline/kernels/on_device.h"
#include "paceline/kernels/whole_power.h"

namespace paceline {

struct AdamCoefficients {
  double rate;
  double beta1;
  double beta2;
  double epsilon;
  double weight_decay;
  bool decoupled;      // AdamW
  double correction1;  // 1 - beta1^t at step t = 1, 2, ...; 1: no correction of the bias towards 0
  double correction2;  // 1 - beta2^t
  double gradient_scale;
};

// With the corrections of step t = 1, 2, ...
constexpr AdamCoefficients at_step(AdamCoefficients c, int64_t t) {
  c.correction1 = 1 - whole_power(c.beta1, t);
  c.correction2 = 1 - whole_power(c.beta2, t);
  return c;
}

void adam_update(float* weights, const float* gradient, float* first, float* second, size_t count,
                 const AdamCoefficients& c);
void adam_update_reference(float* weights, const float* gradient, float* first, float* second, size_t count,
                           const AdamCoefficients& c);

// Of all tensors of a table at once, with the same bits (states: first, second). What is prepared serves every
// update that follows; c.weight_decay is for tensors that are decayed; the corrections are those of the step that the
// update counts at *steps, on the device. One that overflowed is not counted.
void adam_prepare_on_device(const DeviceTable& table, const AdamCoefficients& c);
void adam_update_on_device(const DeviceTable& table, int64_t* steps);

}  // namespace paceline
