// In the place of the *.cu files, in builds without CUDA: nothing is on a device there, so nobody calls these.
#include "paceline/core/check.h"
#include "paceline/kernels/adabound.h"
#include "paceline/kernels/adam.h"
#include "paceline/kernels/augment.h"
#include "paceline/kernels/average.h"
#include "paceline/kernels/batch_norm.h"
#include "paceline/kernels/device_memory.h"
#include "paceline/kernels/lars.h"
#include "paceline/kernels/loss_scale.h"
#include "paceline/kernels/rmsprop.h"
#include "paceline/kernels/sgd.h"

namespace paceline {
namespace {

[[noreturn]] void missing() { detail::check_failed(__FILE__, __LINE__, "this program was built without CUDA"); }

}  // namespace

bool device_kernels_are_built() { return false; }
bool is_capturing(DeviceStream) { missing(); }
size_t free_device_bytes() { missing(); }
void write_tensors(const DeviceTable&, std::span<const DeviceTensor>) { missing(); }
void sgd_prepare_on_device(const DeviceTable&, const SgdCoefficients&) { missing(); }
void sgd_update_on_device(const DeviceTable&) { missing(); }
void lars_prepare_on_device(const DeviceTable&, const LarsStep&) { missing(); }
void lars_update_on_device(const DeviceTable&, double*, float*, double*) { missing(); }
void advance_loss_scale_on_device(const LossScaleMemory&, const float*, const LossScaleRule&, DeviceStream) {
  missing();
}
void adam_prepare_on_device(const DeviceTable&, const AdamCoefficients&) { missing(); }
void adam_update_on_device(const DeviceTable&, int64_t*) { missing(); }
void rmsprop_prepare_on_device(const DeviceTable&, const RmspropCoefficients&) { missing(); }
void rmsprop_update_on_device(const DeviceTable&) { missing(); }
void adabound_prepare_on_device(const DeviceTable&, const AdaboundCoefficients&) { missing(); }
void adabound_prepare_on_device(const DeviceTable&, const AdaboundByStep&) { missing(); }
void adabound_update_on_device(const DeviceTable&, int64_t*) { missing(); }
void average_update_on_device(const DeviceTable&, double) { missing(); }
void augment_on_device(const AugmentedBatch&, DeviceStream) { missing(); }
void batch_norm_forward_on_device(const BatchNormForward&, const BatchNormWorkspace&, BatchNormPasses) { missing(); }
void batch_norm_backward_on_device(const BatchNormBackward&, const BatchNormWorkspace&, BatchNormPasses) { missing(); }

}  // namespace paceline
