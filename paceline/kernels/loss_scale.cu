#include "paceline/kernels/loss_scale.h"

#include "paceline/kernels/device_launch.h"

namespace paceline {
namespace {

__global__ void advance_on_device(LossScaleMemory at, const float* overflow, LossScaleRule rule) {
  advance(at, *overflow != 0, rule);
}

}  // namespace

void advance_loss_scale_on_device(const LossScaleMemory& at, const float* overflow, const LossScaleRule& rule,
                                  DeviceStream stream) {
  advance_on_device<<<1, 1, 0, stream>>>(at, overflow, rule);
  check_launch("advance_on_device");
}

}  // namespace paceline
