// CUDA's bfloat16 numbers as kernels use them, for host_device.h.
#pragma once

#include "cuda_runtime.h"
#include "paceline/core/half.h"

struct alignas(2) __nv_bfloat16 {
  uint16_t bits;
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

inline float __bfloat162float(__nv_bfloat16 value) { return paceline::float_from_bf16(value.bits); }
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return {paceline::bf16_from_float(value)}; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.bits; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}
