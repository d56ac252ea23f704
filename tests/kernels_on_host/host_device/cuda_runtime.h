// CUDA's words as kernels and their launches use them, for host_device.h. In the place of CUDA's own header.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "host_device.h"
#include "paceline/core/check.h"

// ---- Language -------------------------------------------------------------------------------------------------------

#define __global__
#define __device__
#define __host__
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ static  // blocks run one after the other
#define __restrict__ __restrict
#define __builtin_assume(condition) static_cast<void>(condition)

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) double2 {
  double x, y;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

inline int min(int a, int b) { return std::min(a, b); }
inline int max(int a, int b) { return std::max(a, b); }

inline float __fmaf_rn(float a, float b, float c) { return std::fmaf(a, b, c); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }

inline bool __isGlobal(const void*) { return true; }

// A device refuses vectors that are not aligned.
template <class T>
void check_alignment(const T* pointer) {
  CHECK_TRUE(reinterpret_cast<uintptr_t>(pointer) % alignof(T) == 0, "{} is not aligned to {} bytes",
             static_cast<const void*>(pointer), alignof(T));
}

template <class T>
T __ldg(const T* from) {
  check_alignment(from);
  return *from;
}
template <class T>
T __ldcs(const T* from) {
  return __ldg(from);
}
template <class T>
T __ldcg(const T* from) {
  return __ldg(from);
}
template <class T>
void __stcs(T* to, const T& value) {
  check_alignment(to);
  *to = value;
}

inline void __syncthreads() { paceline::host_device::wait_for_block(); }
inline void __threadfence() {}

inline double __shfl_down_sync(unsigned mask, double value, unsigned distance) {
  CHECK_EQ(mask, 0xffffffffu);
  return std::bit_cast<double>(paceline::host_device::shuffle_down(std::bit_cast<uint64_t>(value), distance));
}

inline uint32_t atomicInc(uint32_t* counter, uint32_t most) {
  const uint32_t old = *counter;
  *counter = old >= most ? 0 : old + 1;
  return old;
}

// ---- Runtime --------------------------------------------------------------------------------------------------------

using cudaStream_t = CUstream_st*;
enum cudaError_t { cudaSuccess };
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone };

inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char* cudaGetErrorString(cudaError_t) { return "no error"; }

inline cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}

inline cudaError_t cudaGetDevice(int* number) {
  *number = 0;
  return cudaSuccess;
}

inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = paceline::host_device::device().multiprocessors;
  return cudaSuccess;
}

inline cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = *total_bytes = 0;
  return cudaSuccess;
}

inline cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
