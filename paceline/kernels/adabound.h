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

void adabound_update(float* weights, const float* gradient, float* first, float* second, size_t count,
                     const AdaboundCoefficients& c);
void adabound_update_reference(float* weights, const float* gradient, float* first, float* second, size_t count,
                               const AdaboundCoefficients& c);

}  // namespace paceline
