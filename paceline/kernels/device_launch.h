// For *.cu files: launching, and what a failed launch becomes.
#pragma once

#include <cuda_runtime.h>

#include "paceline/kernels/on_device.h"

namespace paceline {

inline void check_device(const char* call, cudaError_t status) {
  if (status != cudaSuccess) device_call_failed(call, cudaGetErrorString(status));
}

inline void check_launch(const char* kernel) { check_device(kernel, cudaGetLastError()); }

template <class Values>
__global__ void write_values(Values* to, const __grid_constant__ Values values) {
  *to = values;
}

// As an argument of a kernel, like write_tensors(): an asynchronous copy would read its source when the device gets
// there, which may be after the host has filled it for the next step.
template <class Values>
void write_coefficients(const DeviceTable& table, const Values& values) {
  static_assert(sizeof(Values) <= kDeviceCoefficientBytes);
  write_values<Values><<<1, 1, 0, table.stream>>>(static_cast<Values*>(table.coefficients), values);
  check_launch("write_values");
}

}  // namespace paceline
