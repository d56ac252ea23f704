// The mean of gradients that come one after the other, and how they differ (Welford, West).
//
//   m <- m + share·(g - m),   share = b/W: the samples of g and of all so far
//
// One pass each. Elementwise, so the bits do not depend on how callers cut the run; those of the sums do, through the
// order of additions, which is fixed for a run.
#pragma once

#include <cstddef>

namespace paceline {

// 8 bytes read and 4 written per parameter.
void running_mean_add(float* mean, const float* gradient, size_t count, float share);
void running_mean_add_reference(float* mean, const float* gradient, size_t count, float share);

struct MeanNoise {
  double mean_norm2 = 0;  // |m|², of the new mean
  double spread = 0;      // <g - m_before, g - m>: times b, what g adds to the sum of squared distances
};

// The same with the sums, in double precision.
MeanNoise running_mean_add_noise(float* mean, const float* gradient, size_t count, float share);
MeanNoise running_mean_add_noise_reference(float* mean, const float* gradient, size_t count, float share);

// A gradient that came after the mean was used, as if it had been in time:
//   d = share·(g - m);   m <- m + d;   mc <- mc + factor·d
// 12 bytes read and 8 written per parameter.
void running_mean_add_late(float* mean, float* momentum, const float* gradient, size_t count, float share,
                           float factor);
void running_mean_add_late_reference(float* mean, float* momentum, const float* gradient, size_t count, float share,
                                     float factor);

}  // namespace paceline
