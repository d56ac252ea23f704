// What kernels take (kernels/on_device.h) in libtorch's words.
#pragma once

#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/types.h>

#include <optional>

#include "paceline/kernels/on_device.h"

namespace paceline {

// The stream that this thread's work on the device goes to.
inline c10::Stream current_stream(torch::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}
inline DeviceStream kernel_stream(torch::Device device) {
  return static_cast<DeviceStream>(current_stream(device).native_handle());
}

// Nothing: kernels have no number for it.
inline std::optional<DeviceNumber> kernel_number(torch::Dtype dtype) {
  if (dtype == torch::kFloat32) return DeviceNumber::f32;
  if (dtype == torch::kFloat16) return DeviceNumber::f16;
  if (dtype == torch::kBFloat16) return DeviceNumber::bf16;
  return std::nullopt;
}

}  // namespace paceline
