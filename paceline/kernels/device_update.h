// For *.cu files: the loop that all updates share. An Update says what happens to one parameter:
//
//   struct Update {
//     struct Values { ... };                            // what the device reads: table.coefficients
//     static constexpr int kStates = 1;                 // how many of DeviceTensor::states it changes
//     static constexpr bool kBackwards = false;         // whether the last chunk comes first
//     Update(const Values& values, float inverse_scale, bool decayed, uint32_t tensor, Arguments...);
//     void operator()(float& weight, float gradient, float (&states)[kStates]) const;
//   };
//
// Memory decides the time, so each thread has loads for two groups of four elements under way before it uses the
// first: 4 blocks of 256 threads then have some 100 KB in flight on a multiprocessor, a few times what its share of the
// bandwidth times the latency of memory asks for. Gradients and states are marked as not soon needed again; weights may
// stay in the cache for the next forward pass.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "paceline/kernels/device_launch.h"

namespace paceline {

constexpr int kDeviceThreads = 256;

struct alignas(16) Four {
  float of[4];
};

__device__ inline float widen(float value) { return value; }
__device__ inline float widen(__half value) { return __half2float(value); }
__device__ inline float widen(__nv_bfloat16 value) { return __bfloat162float(value); }

// Tells the compiler that a pointer out of a table points to global memory.
template <class T>
__device__ inline T* global(T* pointer) {
  __builtin_assume(__isGlobal(pointer));
  return pointer;
}

// `Soon`: it may be read again soon, and the cache should keep it.
template <bool Soon>
__device__ inline Four load_four(const float* from) {
  const auto* vector = reinterpret_cast<const float4*>(from);
  const float4 v = Soon ? *vector : __ldcs(vector);
  return {v.x, v.y, v.z, v.w};
}

template <bool Soon, class Half>
__device__ inline Four load_four(const Half* from) {
  static_assert(sizeof(Half) == 2);
  const auto* vector = reinterpret_cast<const uint2*>(from);
  const uint2 bits = Soon ? *vector : __ldcs(vector);
  union Lanes {
    uint2 bits;
    Half of[4];
    __device__ Lanes() {}
  } lanes;
  lanes.bits = bits;
  return {widen(lanes.of[0]), widen(lanes.of[1]), widen(lanes.of[2]), widen(lanes.of[3])};
}

__device__ inline void store_four(float* to, const Four& v) {
  *reinterpret_cast<float4*>(to) = make_float4(v.of[0], v.of[1], v.of[2], v.of[3]);
}

__device__ inline void store_state(float* to, const Four& v) {
  __stcs(reinterpret_cast<float4*>(to), make_float4(v.of[0], v.of[1], v.of[2], v.of[3]));
}

__device__ inline uint16_t half_bits(float value, DeviceNumber type) {
  return type == DeviceNumber::f16 ? __half_as_ushort(__float2half_rn(value))
                                   : __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

__device__ inline void store_halves(uint16_t* to, const Four& v, DeviceNumber type) {
  const uint32_t low = half_bits(v.of[0], type) | uint32_t{half_bits(v.of[1], type)} << 16;
  const uint32_t high = half_bits(v.of[2], type) | uint32_t{half_bits(v.of[3], type)} << 16;
  *reinterpret_cast<uint2*>(to) = make_uint2(low, high);
}

template <class Gradient, class Update>
__device__ inline void update_chunk(const DeviceTensor& tensor, int64_t begin, int count, const Update& update) {
  constexpr int kGroups = 2, kStates = Update::kStates;
  float* const __restrict__ weights = global(tensor.weights) + begin;
  const Gradient* const __restrict__ gradient = global(static_cast<const Gradient*>(tensor.gradient)) + begin;
  uint16_t* const halves =
      tensor.half_weights != nullptr ? global(static_cast<uint16_t*>(tensor.half_weights)) + begin : nullptr;
  float* states[kStates];
#pragma unroll
  for (int s = 0; s < kStates; ++s) states[s] = global(tensor.states[s]) + begin;

  const int fours = tensor.aligned ? count / 4 : 0;
  for (int first = static_cast<int>(threadIdx.x); first < fours; first += kGroups * kDeviceThreads) {
    Four w[kGroups], g[kGroups], s[kGroups][kStates];
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const int at = 4 * (first + group * kDeviceThreads);
      if (at < 4 * fours) {
        w[group] = load_four<true>(weights + at);
        g[group] = load_four<false>(gradient + at);
#pragma unroll
        for (int k = 0; k < kStates; ++k) s[group][k] = load_four<false>(states[k] + at);
      }
    }
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const int at = 4 * (first + group * kDeviceThreads);
      if (at < 4 * fours) {
#pragma unroll
        for (int lane = 0; lane < 4; ++lane) {
          float own[kStates];
#pragma unroll
          for (int k = 0; k < kStates; ++k) own[k] = s[group][k].of[lane];
          update(w[group].of[lane], g[group].of[lane], own);
#pragma unroll
          for (int k = 0; k < kStates; ++k) s[group][k].of[lane] = own[k];
        }
        store_four(weights + at, w[group]);
#pragma unroll
        for (int k = 0; k < kStates; ++k) store_state(states[k] + at, s[group][k]);
        if (halves != nullptr) store_halves(halves + at, w[group], tensor.half_type);
      }
    }
  }
  // The rest of a tensor, and tensors that begin between two groups of four.
  for (int at = 4 * fours + static_cast<int>(threadIdx.x); at < count; at += kDeviceThreads) {
    float w = weights[at], own[kStates];
#pragma unroll
    for (int k = 0; k < kStates; ++k) own[k] = states[k][at];
    update(w, widen(gradient[at]), own);
    weights[at] = w;
#pragma unroll
    for (int k = 0; k < kStates; ++k) states[k][at] = own[k];
    if (halves != nullptr) halves[at] = half_bits(w, tensor.half_type);
  }
}

__device__ inline bool is_skipped(const DeviceTable& table) {
  return table.found_inf != nullptr && *table.found_inf != 0;
}

__device__ inline int elements_of(const DeviceTensor& tensor, int64_t begin) {
  const int64_t rest = tensor.count - begin;
  return static_cast<int>(rest < kDeviceChunkElements ? rest : kDeviceChunkElements);
}

template <class Update, class... Arguments>
__global__ void __launch_bounds__(kDeviceThreads, 4)
    update_tensors(const __grid_constant__ DeviceTable table, Arguments... arguments) {
  if (is_skipped(table)) return;
  const DeviceChunk chunk = table.chunks[Update::kBackwards ? table.chunk_count - 1 - blockIdx.x : blockIdx.x];
  const DeviceTensor tensor = table.tensors[chunk.tensor];
  if (tensor.gradient == nullptr) return;
  const auto& values = *static_cast<const typename Update::Values*>(table.coefficients);
  const float inverse_scale = table.inverse_scale != nullptr ? *table.inverse_scale : 1.0f;
  const Update update(values, inverse_scale, tensor.decayed, chunk.tensor, arguments...);
  const int64_t begin = int64_t{chunk.index} * kDeviceChunkElements;
  const int count = elements_of(tensor, begin);
  switch (tensor.gradient_type) {
    case DeviceNumber::f16:
      return update_chunk<__half>(tensor, begin, count, update);
    case DeviceNumber::bf16:
      return update_chunk<__nv_bfloat16>(tensor, begin, count, update);
    default:
      return update_chunk<float>(tensor, begin, count, update);
  }
}

// Goes before an update whose coefficients depend on how many steps were made: counts this one, unless it is skipped.
// Update::Memory is what lies at table.coefficients: `values`, which the update reads, made here of what was `given`.
template <class Update>
__global__ void count_step(const __grid_constant__ DeviceTable table, int64_t* steps) {
  if (is_skipped(table)) return;
  auto& memory = *static_cast<typename Update::Memory*>(table.coefficients);
  static_assert(offsetof(typename Update::Memory, values) == 0);
  memory.values = Update::values_of(memory.given, steps == nullptr ? 0 : ++*steps);
}

template <class Update>
void launch_count(const char* name, const DeviceTable& table, int64_t* steps) {
  if (table.chunk_count == 0) return;
  count_step<Update><<<1, 1, 0, table.stream>>>(table, steps);
  check_launch(name);
}

template <class Update, class... Arguments>
void launch_update(const char* name, const DeviceTable& table, const Arguments&... arguments) {
  if (table.chunk_count == 0) return;
  update_tensors<Update, Arguments...><<<table.chunk_count, kDeviceThreads, 0, table.stream>>>(table, arguments...);
  check_launch(name);
}

}  // namespace paceline
