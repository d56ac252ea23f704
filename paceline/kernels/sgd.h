// SGD with momentum on a run of parameters, and what gradient clipping needs.
//
//   g <- scale·gradient + decay·w;   u <- momentum·u + g;   w <- w - rate·u      (Nesterov: w <- w - rate·(g +
//   momentum·u))
//
// One pass: 12 bytes read and 8 written per parameter. Elementwise, so the bits do not depend on how callers cut the
// run.
#pragma once

#include <cstddef>

#include "paceline/kernels/on_device.h"

namespace paceline {

struct SgdCoefficients {
  float rate;
  float momentum;
  float weight_decay;
  float gradient_scale;
  bool nesterov;
};

void sgd_update(float* weights, const float* gradient, float* momentum, size_t count, const SgdCoefficients& c);
void sgd_update_reference(float* weights, const float* gradient, float* momentum, size_t count,
                          const SgdCoefficients& c);

// Of all tensors of a table at once, with the same bits (states: momentum). What is prepared serves every
// update that follows; c.weight_decay is for tensors that are decayed.
void sgd_prepare_on_device(const DeviceTable& table, const SgdCoefficients& c);
void sgd_update_on_device(const DeviceTable& table);

// In double precision and fixed order.
double sum_of_squares(const float* values, size_t count);

}  // namespace paceline
