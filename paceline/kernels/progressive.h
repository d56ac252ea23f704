// Progressive momentum on a run of parameters: the step of a server that takes late gradients into its momentum.
//
//   g <- gradient + decay·w;   w <- w - rate·(g + mc);   mc <- momentum·(mc + g)
//
// One pass: 12 bytes read and 8 written per parameter. Elementwise, so the bits do not depend on how callers cut the
// run.
#pragma once

#include <cstddef>

namespace paceline {

struct ProgressiveCoefficients {
  float rate;
  float momentum;
  float weight_decay;
};

void progressive_update(float* weights, const float* gradient, float* momentum, size_t count,
                        const ProgressiveCoefficients& c);
void progressive_update_reference(float* weights, const float* gradient, float* momentum, size_t count,
                                  const ProgressiveCoefficients& c);

// Where the next step goes if its gradient is 0: ahead <- w - rate·mc.
void look_ahead(float* ahead, const float* weights, const float* momentum, size_t count, float rate);
void look_ahead_reference(float* ahead, const float* weights, const float* momentum, size_t count, float rate);

// A late gradient: mc <- mc + factor·gradient.
void merge_late(float* momentum, const float* gradient, size_t count, float factor);
void merge_late_reference(float* momentum, const float* gradient, size_t count, float factor);

}  // namespace paceline
