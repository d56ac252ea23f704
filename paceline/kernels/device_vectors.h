// For *.cu files: 16 bytes of numbers, the most that a thread can move at once, and the same in single precision.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "paceline/kernels/device_launch.h"

namespace paceline {

template <class Number>
constexpr int kVector = 16 / static_cast<int>(sizeof(Number));  // numbers in 16 bytes

template <class Number>
__device__ inline float2 widen_pair(uint32_t bits) {
  if constexpr (std::is_same_v<Number, __half>) {
    return __half22float2(*reinterpret_cast<const __half2*>(&bits));
  } else {  // the upper half of a float
    return make_float2(__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u));
  }
}

template <class Number>
__device__ inline uint32_t narrow_pair(float low, float high) {
  if constexpr (std::is_same_v<Number, __half>) {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
}

template <class Number>
__device__ inline void unpack(const uint4& bits, float (&to)[kVector<Number>]) {
  const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (std::is_same_v<Number, float>) {
      to[i] = __uint_as_float(words[i]);
    } else {
      const float2 pair = widen_pair<Number>(words[i]);
      to[2 * i] = pair.x;
      to[2 * i + 1] = pair.y;
    }
  }
}

template <class Number>
__device__ inline uint4 pack(const float (&from)[kVector<Number>]) {
  uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (std::is_same_v<Number, float>) {
      words[i] = __float_as_uint(from[i]);
    } else {
      words[i] = narrow_pair<Number>(from[2 * i], from[2 * i + 1]);
    }
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// `from` is aligned to 16 bytes.
template <int kCount>
__device__ inline void load_floats(const float* from, float (&to)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(from + i);
    to[i] = four.x;
    to[i + 1] = four.y;
    to[i + 2] = four.z;
    to[i + 3] = four.w;
  }
}

}  // namespace paceline
