// Elastic averaging of a worker's parameters x with the server's w:
//
//   d = factor·(x - w);   w <- w + d;   x <- x - d
//
// One pass: 8 bytes read and 8 written per parameter. Elementwise, so the bits do not depend on how callers cut the
// run.
#pragma once

#include <cstddef>

namespace paceline {

void elastic_exchange(float* weights, float* worker_weights, size_t count, float factor);
void elastic_exchange_reference(float* weights, float* worker_weights, size_t count, float factor);

}  // namespace paceline
