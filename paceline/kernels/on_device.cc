#include "paceline/kernels/on_device.h"

#include "paceline/core/check.h"

namespace paceline {

void device_call_failed(const char* call, const char* why) {
  detail::check_failed(__FILE__, __LINE__, fmt::format("CUDA refused {}: {}", call, why));
}

bool is_aligned(const DeviceTensor& tensor) {
  const auto by = [](const void* pointer, uintptr_t bytes) {
    return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
  };
  return by(tensor.weights, 16) && by(tensor.gradient, tensor.gradient_type == DeviceNumber::f32 ? 16 : 8) &&
         by(tensor.states[0], 16) && by(tensor.states[1], 16) && by(tensor.half_weights, 8);
}

}  // namespace paceline
