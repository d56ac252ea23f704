// Updates of all parameters at once on a CUDA device: what the kernels of sgd.cu, lars.cu, adam.cu... take.
//
// A network's tensors are cut into chunks, and a chunk is a block of threads: one launch for all of them, however many
// there are. Which tensor a chunk belongs to depends on shapes only and stays on the device for good; where tensors
// lie is written anew when it changes. Rates and the like are read from device memory as well, so that a launch that
// was captured in a CUDA graph can be replayed with others. Nothing here waits for the device.
//
// Builds without CUDA have on_device_missing.cc in the place of the *.cu files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

struct CUstream_st;

namespace paceline {

enum class DeviceNumber : uint8_t { f32, f16, bf16 };  // what a gradient or a copy of weights is made of

using DeviceStream = CUstream_st*;  // cudaStream_t, without CUDA's headers

constexpr int64_t kDeviceChunkElements =
    8192;  // 160 KB of SGD: long against the start of a block, short against a step
constexpr size_t kDeviceCoefficientBytes = 256;

// Where one parameter and what belongs to it lie. Elements are in the same order in all of them.
struct DeviceTensor {
  float* weights = nullptr;
  const void* gradient = nullptr;  // null: the parameter is left as it is
  float* states[2] = {};           // what the optimizer keeps, in the order of its kernel's arguments
  void* half_weights = nullptr;    // null, or where a copy of the new weights goes
  int64_t count = 0;
  uint32_t first_chunk = 0;                        // in the table; the tensor's chunks follow each other
  DeviceNumber gradient_type = DeviceNumber::f32;  // or f16, bf16
  DeviceNumber half_type = DeviceNumber::f16;      // or bf16
  bool decayed = false;                            // weight decay applies
  bool aligned = false;                            // see is_aligned()
};
static_assert(sizeof(DeviceTensor) == 56);  // no padding: tables are compared as bytes

struct DeviceChunk {
  uint32_t tensor;
  uint32_t index;  // within the tensor; its first element is index · kDeviceChunkElements
};

struct DeviceTable {
  DeviceTensor* tensors;  // these three lie on the device
  const DeviceChunk* chunks;
  void* coefficients;  // kDeviceCoefficientBytes
  uint32_t tensor_count;
  uint32_t chunk_count;
  const float* found_inf;      // null, or on the device: when it is not 0, nothing is changed
  const float* inverse_scale;  // null, or on the device: gradients are multiplied by it (of a loss scale)
  DeviceStream stream;
};

// For *.cu files, which nvcc compiles without fmt: throws InternalError.
[[noreturn]] void device_call_failed(const char* call, const char* why);

// Whether all that is there can be moved by 16 bytes (halves: by 8) at a time.
bool is_aligned(const DeviceTensor& tensor);

bool device_kernels_are_built();
bool is_capturing(DeviceStream stream);

// Puts `tensors` into table.tensors, in the order of the stream. They travel as arguments of a kernel: the host's
// memory is free at once, and a captured graph has its own copy.
void write_tensors(const DeviceTable& table, std::span<const DeviceTensor> tensors);

}  // namespace paceline
