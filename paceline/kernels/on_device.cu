#include "paceline/kernels/on_device.h"

#include <algorithm>

#include "paceline/kernels/device_launch.h"

namespace paceline {
namespace {

constexpr size_t kBatch = 256;  // 14 KB of arguments; CUDA allows 32,764 bytes

struct TensorBatch {
  DeviceTensor tensors[kBatch];
};

__global__ void __launch_bounds__(kBatch)
    write_batch(DeviceTensor* to, const __grid_constant__ TensorBatch batch, uint32_t count) {
  if (threadIdx.x < count) to[threadIdx.x] = batch.tensors[threadIdx.x];
}

}  // namespace

bool device_kernels_are_built() { return true; }

bool is_capturing(DeviceStream stream) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  check_device("cudaStreamIsCapturing", cudaStreamIsCapturing(stream, &capture));
  return capture != cudaStreamCaptureStatusNone;
}

void write_tensors(const DeviceTable& table, std::span<const DeviceTensor> tensors) {
  TensorBatch batch;
  for (size_t first = 0; first < tensors.size(); first += kBatch) {
    const std::span<const DeviceTensor> part = tensors.subspan(first, std::min(kBatch, tensors.size() - first));
    std::copy(part.begin(), part.end(), batch.tensors);
    write_batch<<<1, kBatch, 0, table.stream>>>(table.tensors + first, batch, static_cast<uint32_t>(part.size()));
    check_launch("write_batch");
  }
}

}  // namespace paceline
