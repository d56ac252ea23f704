// RMSProp on a run of parameters, as PyTorch has it.
//
//   g <- scale·gradient + decay·w;   v <- alpha·v + (1 - alpha)·g²
//   u <- momentum·u + g / (√v + epsilon);   w <- w - rate·u
//
// One pass: 16 bytes read and 12 written per parameter. Elementwise, so the bits do not depend on how callers cut the
// run.
#pragma once

#include <cstddef>

#include "paceline/kernels/on_device.h"

namespace paceline {

struct RmspropCoefficients {
  double rate;
  double alpha;
  double epsilon;
  double momentum;
  double weight_decay;
  double gradient_scale;
};

void rmsprop_update(float* weights, const float* gradient, float* second, float* momentum, size_t count,
                    const RmspropCoefficients& c);
void rmsprop_update_reference(float* weights, const float* gradient, float* second, float* momentum, size_t count,
                              const RmspropCoefficients& c);

// Of all tensors of a table at once, with the same bits (states: second, momentum). What is prepared serves every
// update that follows; c.weight_decay is for tensors that are decayed.
void rmsprop_prepare_on_device(const DeviceTable& table, const RmspropCoefficients& c);
void rmsprop_update_on_device(const DeviceTable& table);

}  // namespace paceline
