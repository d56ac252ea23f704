#include "bench/device_triad.h"

#include <cuda_runtime.h>

namespace paceline {
namespace {

constexpr int kThreads = 256, kGroups = 4;

__global__ void __launch_bounds__(kThreads)
    triad(float4* __restrict__ a, const float4* __restrict__ b, const float4* __restrict__ c, int64_t fours) {
  const int64_t first = int64_t{blockIdx.x} * kGroups * kThreads + threadIdx.x;
  float4 x[kGroups], y[kGroups];
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    const int64_t at = first + group * kThreads;
    if (at < fours) {
      x[group] = __ldcs(b + at);
      y[group] = __ldcs(c + at);
    }
  }
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    const int64_t at = first + group * kThreads;
    const float4 u = x[group], v = y[group];
    if (at < fours) {
      __stcs(a + at, make_float4(u.x + 1e-6f * v.x, u.y + 1e-6f * v.y, u.z + 1e-6f * v.z, u.w + 1e-6f * v.w));
    }
  }
}

}  // namespace

void device_triad(float* a, const float* b, const float* c, int64_t count, CUstream_st* stream) {
  const int64_t fours = count / 4, per_block = int64_t{kGroups} * kThreads;
  triad<<<static_cast<unsigned>((fours + per_block - 1) / per_block), kThreads, 0, stream>>>(
      reinterpret_cast<float4*>(a), reinterpret_cast<const float4*>(b), reinterpret_cast<const float4*>(c), fours);
}

}  // namespace paceline
