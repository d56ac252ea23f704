// a[i] = b[i] + 1e-6·c[i] on a CUDA device: the memory's speed, plainly. 12 bytes for an element; count is a multiple
// of 4.
#pragma once

#include <cstdint>

struct CUstream_st;

namespace paceline {

void device_triad(float* a, const float* b, const float* c, int64_t count, CUstream_st* stream);

}  // namespace paceline
