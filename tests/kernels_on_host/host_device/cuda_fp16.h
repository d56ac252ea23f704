// CUDA's half numbers as kernels use them, for host_device.h.
#pragma once

#include "cuda_runtime.h"
#include "paceline/core/half.h"

struct alignas(2) __half {
  uint16_t bits;
};
struct alignas(4) __half2 {
  __half x, y;
};

inline float __half2float(__half value) { return paceline::float_from_f16(value.bits); }
inline __half __float2half_rn(float value) { return {paceline::f16_from_float(value)}; }
inline unsigned short __half_as_ushort(__half value) { return value.bits; }
inline float2 __half22float2(__half2 pair) { return {__half2float(pair.x), __half2float(pair.y)}; }
inline __half2 __floats2half2_rn(float x, float y) { return {__float2half_rn(x), __float2half_rn(y)}; }
