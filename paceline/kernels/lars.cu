// Three launches: the sums of squares of every chunk; their sums over each tensor and its rate; the update. A small one
// before the last corrects the momentum, where that is asked for.
//
// Sums are made in an order that depends on the tensor's size only: within a thread's 32 elements in single precision,
// from there on in double. So they differ a little from the CPU's, which are in double from the first element, and have
// the same bits in every run. Squares of numbers below 1e-19 count as 0, above 1.8e19 as infinite.
#include "paceline/kernels/lars.h"

#include "paceline/kernels/device_update.h"

namespace paceline {
namespace {

struct LarsValues {
  double rate, eta, epsilon, weight_decay, gradient_scale;
  double given_momentum;  // not corrected
  float momentum, update_decay, update_scale;
};

// Of all threads of a block, in thread 0. Each warp sums its own by halves, then the first warp those sums.
__device__ double2 sum_of_block(double2 sum) {
  constexpr int kWarps = kDeviceThreads / 32;
  __shared__ double2 sums[kWarps];
  const auto of_warp = [](double2 value, int lanes) {
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
      value.x += __shfl_down_sync(0xffffffff, value.x, distance);
      value.y += __shfl_down_sync(0xffffffff, value.y, distance);
    }
    return value;
  };
  sum = of_warp(sum, 32);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < kWarps ? sums[threadIdx.x] : double2{0, 0};
    sum = of_warp(sum, 32);
  }
  return sum;
}

// By vectors where they are aligned, else one by one: the order of the sums is the same.
template <bool Aligned, class Element>
__device__ inline Four load_for_norm(const Element* from) {
  if constexpr (Aligned) return load_four<true>(from);
  return {widen(from[0]), widen(from[1]), widen(from[2]), widen(from[3])};
}

__device__ inline void add_squares(float& sum, const Four& v) {
#pragma unroll
  for (int lane = 0; lane < 4; ++lane) sum += v.of[lane] * v.of[lane];
}

template <bool Aligned, class Gradient>
__device__ inline double2 squares(const DeviceTensor& tensor, int64_t begin, int count) {
  constexpr int kGroups = 4;  // loads under way at once
  const float* const weights = global(tensor.weights) + begin;
  const Gradient* const gradient = global(static_cast<const Gradient*>(tensor.gradient)) + begin;
  const int fours = count / 4;
  float w_sum = 0, g_sum = 0;
  for (int first = static_cast<int>(threadIdx.x); first < fours; first += kGroups * kDeviceThreads) {
    Four w[kGroups] = {}, g[kGroups] = {};
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const int at = first + group * kDeviceThreads;
      if (at < fours) {
        w[group] = load_for_norm<Aligned>(weights + 4 * at);
        g[group] = load_for_norm<Aligned>(gradient + 4 * at);
      }
    }
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      add_squares(w_sum, w[group]);
      add_squares(g_sum, g[group]);
    }
  }
  const int rest = 4 * fours + static_cast<int>(threadIdx.x);
  if (rest < count) {
    w_sum += weights[rest] * weights[rest];
    g_sum += widen(gradient[rest]) * widen(gradient[rest]);
  }
  return {w_sum, g_sum};
}

template <class Gradient>
__device__ inline double2 squares_of_thread(const DeviceTensor& tensor, int64_t begin, int count) {
  return tensor.aligned ? squares<true, Gradient>(tensor, begin, count)
                        : squares<false, Gradient>(tensor, begin, count);
}

__global__ void __launch_bounds__(kDeviceThreads, 4)
    squares_of_chunks(const __grid_constant__ DeviceTable table, double2* sums) {
  if (is_skipped(table)) return;
  const DeviceChunk chunk = table.chunks[blockIdx.x];
  const DeviceTensor tensor = table.tensors[chunk.tensor];
  if (tensor.gradient == nullptr || !tensor.decayed) return;  // nobody asks for its norms
  const int64_t begin = int64_t{chunk.index} * kDeviceChunkElements;
  const int count = elements_of(tensor, begin);
  double2 sum;
  switch (tensor.gradient_type) {
    case DeviceNumber::f16:
      sum = squares_of_thread<__half>(tensor, begin, count);
      break;
    case DeviceNumber::bf16:
      sum = squares_of_thread<__nv_bfloat16>(tensor, begin, count);
      break;
    default:
      sum = squares_of_thread<float>(tensor, begin, count);
  }
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// A block for each tensor.
__global__ void __launch_bounds__(kDeviceThreads)
    rates_of_tensors(const __grid_constant__ DeviceTable table, const double2* sums, float* rates) {
  if (is_skipped(table)) return;
  const DeviceTensor tensor = table.tensors[blockIdx.x];
  if (tensor.gradient == nullptr) return;
  const auto& c = *static_cast<const LarsValues*>(table.coefficients);
  if (!tensor.decayed) {
    if (threadIdx.x == 0) rates[blockIdx.x] = static_cast<float>(c.rate);
    return;
  }
  const auto chunks = static_cast<uint32_t>((tensor.count + kDeviceChunkElements - 1) / kDeviceChunkElements);
  double2 sum = {0, 0};
  for (uint32_t chunk = threadIdx.x; chunk < chunks; chunk += kDeviceThreads) {
    const double2 part = sums[tensor.first_chunk + chunk];
    sum.x += part.x;
    sum.y += part.y;
  }
  sum = sum_of_block(sum);
  if (threadIdx.x != 0) return;
  const double scale = c.gradient_scale * (table.inverse_scale != nullptr ? *table.inverse_scale : 1.0f);
  rates[blockIdx.x] =
      static_cast<float>(lars_rate(c.rate, c.eta, c.epsilon, c.weight_decay, sqrt(sum.x), scale * sqrt(sum.y)));
}

__global__ void correct_momentum(const __grid_constant__ DeviceTable table, double* last_rate) {
  if (is_skipped(table)) return;
  auto& c = *static_cast<LarsValues*>(table.coefficients);
  c.momentum = static_cast<float>(c.given_momentum * momentum_correction(c.rate, *last_rate));
  *last_rate = c.rate;
}

struct LarsUpdate {
  using Values = LarsValues;
  static constexpr int kStates = 1;
  static constexpr bool kBackwards = true;  // what the norms have read last may still be in the cache

  __device__ LarsUpdate(const Values& c, float inverse_scale, bool decayed, uint32_t tensor, const float* rates)
      : local_rate(rates[tensor]),
        momentum(c.momentum),
        decay(decayed ? c.update_decay : 0),
        scale(c.update_scale * inverse_scale) {}

  __device__ void operator()(float& w, float gradient, float (&state)[1]) const {
    const float g = scale * gradient + decay * w;
    state[0] = momentum * state[0] + local_rate * g;
    w = w - state[0];
  }

  float local_rate, momentum, decay, scale;
};

}  // namespace

void lars_prepare_on_device(const DeviceTable& table, const LarsStep& step) {
  write_coefficients(table, LarsValues{.rate = step.rate,
                                       .eta = step.eta,
                                       .epsilon = step.epsilon,
                                       .weight_decay = step.weight_decay,
                                       .gradient_scale = step.gradient_scale,
                                       .given_momentum = step.momentum,
                                       .momentum = static_cast<float>(step.momentum),
                                       .update_decay = static_cast<float>(step.weight_decay),
                                       .update_scale = static_cast<float>(step.gradient_scale)});
}

void lars_update_on_device(const DeviceTable& table, double* sums, float* rates, double* last_rate) {
  if (table.chunk_count == 0) return;
  auto* const pairs = reinterpret_cast<double2*>(sums);
  squares_of_chunks<<<table.chunk_count, kDeviceThreads, 0, table.stream>>>(table, pairs);
  check_launch("squares_of_chunks");
  rates_of_tensors<<<table.tensor_count, kDeviceThreads, 0, table.stream>>>(table, pairs, rates);
  check_launch("rates_of_tensors");
  if (last_rate != nullptr) {
    correct_momentum<<<1, 1, 0, table.stream>>>(table, last_rate);
    check_launch("correct_momentum");
  }
  launch_update<LarsUpdate, const float*>("lars", table, rates);
}

}  // namespace paceline
