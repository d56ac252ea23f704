// A step of a loss scale that lives where the gradients are, so that nobody waits to learn whether they overflowed.
// The rule is that of precision/loss_scale.h.
#pragma once

#include <cstdint>

#include "paceline/kernels/on_device.h"

namespace paceline {

struct LossScaleRule {
  bool dynamic = true;
  double growth_steps = 2000;  // counts are doubles: exact, and one type for all of a state
  double floor = 1;
  double most = 0x1p40;
};

// One of each.
struct LossScaleMemory {
  double* scale;
  double* clean_steps;
  double* skips_in_a_row;
  double* skipped_steps;
  double* longest_skips;  // the most skips in a row since this was last set to 0
  float* factor;          // the scale as kernels take it
  float* inverse;
};

#ifdef __CUDACC__
__host__ __device__
#endif
    inline void
    advance(const LossScaleMemory& at, bool overflow, const LossScaleRule& rule) {
  if (overflow) {
    *at.clean_steps = 0;
    *at.skips_in_a_row += 1;
    *at.skipped_steps += 1;
    if (*at.skips_in_a_row > *at.longest_skips) *at.longest_skips = *at.skips_in_a_row;
    if (rule.dynamic) *at.scale = *at.scale / 2 > rule.floor ? *at.scale / 2 : rule.floor;
  } else {
    *at.skips_in_a_row = 0;
    *at.clean_steps += 1;
    if (rule.dynamic && *at.clean_steps >= rule.growth_steps) {
      *at.scale = 2 * *at.scale < rule.most ? 2 * *at.scale : rule.most;
      *at.clean_steps = 0;
    }
  }
  *at.factor = static_cast<float>(*at.scale);
  *at.inverse = static_cast<float>(1 / *at.scale);
}

// After a step with this scale: *overflow is not 0 where it must be skipped. All pointers are the device's.
void advance_loss_scale_on_device(const LossScaleMemory& at, const float* overflow, const LossScaleRule& rule,
                                  DeviceStream stream);

}  // namespace paceline
