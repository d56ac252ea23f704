// An exponential moving average of weights: average <- keep·average + (1 - keep)·w.
//
// One pass: 8 bytes read and 4 written per parameter. Elementwise, so the bits do not depend on how callers cut the
// run.
#pragma once

#include <cstddef>

#include "paceline/kernels/on_device.h"

namespace paceline {

void average_update(float* average, const float* weights, size_t count, double keep);
void average_update_reference(float* average, const float* weights, size_t count, double keep);

// Of all tensors of a table at once, with the same bits (states: average).
void average_update_on_device(const DeviceTable& table, double keep);

}  // namespace paceline
