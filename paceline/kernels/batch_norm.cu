// Memory decides the time of all four kernels, so each thread has several loads of 16 bytes under way before it uses
// the first: 48 to 64 KB on each multiprocessor, about twice what bandwidth times latency asks for. Of a pair of passes
// the second goes through the rows from the end: what the first has read last is still in the cache.
#include "paceline/kernels/batch_norm.h"

#include "paceline/kernels/device_channels.h"

namespace paceline {
namespace {

constexpr size_t kCoefficients = 2;  // for each channel, from the first pass of backward to the second
static_assert(batch_norm_sums({.rows = 2, .channels = 8}) == kSumMostBlocks * 2 * kSumLanes * 8 + kCoefficients * 8);
static_assert(kBatchNormCounters <= kSumMostBlocks);  // tiles of a row, each with one block at least
static_assert(batch_norm_on_device_serves({2, kSumLanes * 8 * kBatchNormCounters, DeviceNumber::f16}) &&
              !batch_norm_on_device_serves({2, kSumLanes * 8 * (kBatchNormCounters + 1), DeviceNumber::f16}));

constexpr int kPassThreads = 256;
constexpr int kPassResident = 3;  // blocks on a multiprocessor

__device__ inline float normalised(float x, float mean, float scale, float beta) {
  return __fmaf_rn(x - mean, scale, beta);
}

__device__ inline int64_t vector_at(const ChannelGrid& grid, const ChannelPlace& place, int row) {
  return static_cast<int64_t>(row) * grid.groups + place.group;
}

template <int kCount>
__device__ inline void load_row(const float* statistics, BatchNormStatistics::Row row, const ChannelGrid& grid,
                                const ChannelPlace& place, float (&to)[kCount]) {
  load_floats(statistics + static_cast<int64_t>(row) * grid.channels + place.group * kCount, to);
}

// ---- Forward --------------------------------------------------------------------------------------------------------

// What the last block of a tile makes of mean and squared distances.
struct FinishStatistics {
  __device__ void operator()(int channel, float mean, float squares) const {
    const float inverse = 1.0f / sqrtf(squares / rows + epsilon);
    statistics[BatchNormStatistics::mean * channels + channel] = mean;
    statistics[BatchNormStatistics::inverse_deviation * channels + channel] = inverse;
    statistics[BatchNormStatistics::scale * channels + channel] = gamma[channel] * inverse;
    statistics[BatchNormStatistics::beta * channels + channel] = beta[channel];
    running_mean[channel] = (1 - momentum) * running_mean[channel] + momentum * mean;
    running_variance[channel] = (1 - momentum) * running_variance[channel] + momentum * (squares / (rows - 1));
    if (channel == 0 && batches != nullptr) ++*batches;
  }

  float rows;
  int64_t channels;
  const float* gamma;
  const float* beta;
  float* running_mean;
  float* running_variance;
  int64_t* batches;
  float momentum, epsilon;
  float* statistics;
};

// Each thread sums distances from the first value that it reads. That value is one of those summed, so squares lose at
// most as many units of rounding as the thread has rows, however far the mean is from 0.
template <class Number>
__global__ void __launch_bounds__(kSumThreads, 1)
    sum_moments(const ChannelGrid grid, const uint4* __restrict__ input, float* sums, uint32_t* counters,
                const FinishStatistics finish) {
  constexpr int kChannels = kVector<Number>, kLoads = 8;
  const ChannelPlace place(grid);
  float origin[kChannels] = {};
  ChannelSums<kChannels> own;  // of distances and their squares, at first
  if (place.active) {
    for (int row = place.first_row; row < grid.rows; row += kLoads * place.step) {
      uint4 bits[kLoads];
#pragma unroll
      for (int load = 0; load < kLoads; ++load) {
        const int at = row + load * place.step;
        if (at < grid.rows) bits[load] = input[vector_at(grid, place, at)];
      }
      if (row == place.first_row) unpack<Number>(bits[0], origin);
#pragma unroll
      for (int load = 0; load < kLoads; ++load) {
        if (row + load * place.step < grid.rows) {
          float x[kChannels];
          unpack<Number>(bits[load], x);
#pragma unroll
          for (int i = 0; i < kChannels; ++i) {
            const float distance = x[i] - origin[i];
            own.first[i] += distance;
            own.second[i] = __fmaf_rn(distance, distance, own.second[i]);
          }
        }
      }
    }
    if (place.first_row < grid.rows) {
      own.count = static_cast<float>((grid.rows - 1 - place.first_row) / place.step + 1);
#pragma unroll
      for (int i = 0; i < kChannels; ++i) {
        const float mean = own.first[i] / own.count;  // of distances
        // Never below 0 but for rounding; what is not a number stays.
        const float squares = __fmaf_rn(-mean, own.first[i], own.second[i]);
        own.second[i] = squares < 0 ? 0 : squares;
        own.first[i] = origin[i] + mean;
      }
    }
  }
  finish_channels<MergeMoments>(own, grid, place, sums, counters, finish);
}

template <class Number, bool kResidual, bool kRelu>
__global__ void __launch_bounds__(kPassThreads, kPassResident)
    normalise(const ChannelGrid grid, const uint4* __restrict__ input, const uint4* __restrict__ residual,
              uint4* __restrict__ output, const float* __restrict__ statistics) {
  constexpr int kChannels = kVector<Number>, kLoads = kResidual ? 2 : 4;
  const ChannelPlace place(grid);
  if (!place.active) return;
  float mean[kChannels], scale[kChannels], beta[kChannels];
  load_row(statistics, BatchNormStatistics::mean, grid, place, mean);
  load_row(statistics, BatchNormStatistics::scale, grid, place, scale);
  load_row(statistics, BatchNormStatistics::beta, grid, place, beta);
  for (int row = grid.rows - 1 - place.first_row; row >= 0; row -= kLoads * place.step) {
    uint4 x_bits[kLoads], residual_bits[kLoads];
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      const int at = row - load * place.step;
      if (at >= 0) {
        x_bits[load] = input[vector_at(grid, place, at)];
        if (kResidual) residual_bits[load] = residual[vector_at(grid, place, at)];
      }
    }
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      const int at = row - load * place.step;
      if (at >= 0) {
        float x[kChannels], added[kChannels];
        unpack<Number>(x_bits[load], x);
        if (kResidual) unpack<Number>(residual_bits[load], added);
#pragma unroll
        for (int i = 0; i < kChannels; ++i) {
          float value = normalised(x[i], mean[i], scale[i], beta[i]);
          if (kResidual) value += added[i];
          x[i] = kRelu && value <= 0 ? 0 : value;
        }
        output[vector_at(grid, place, at)] = pack<Number>(x);
      }
    }
  }
}

// ---- Backward -------------------------------------------------------------------------------------------------------

// How a pass learns where the ReLU let something pass.
enum class Passed { everywhere, from_input, from_output };

// The coefficients of the second pass: input_gradient = scale·g - (offset + slope·(x - mean)).
struct FinishGradients {
  __device__ void operator()(int channel, float sum, float products) const {
    const float inverse = statistics[BatchNormStatistics::inverse_deviation * channels + channel];
    const float scale = statistics[BatchNormStatistics::scale * channels + channel];
    const float gamma_sum = products * inverse;
    beta_gradient[channel] = sum;
    gamma_gradient[channel] = gamma_sum;
    coefficients[channel] = scale * (sum / rows);
    coefficients[channels + channel] = scale * (inverse * (gamma_sum / rows));
  }

  float rows;
  int64_t channels;
  const float* statistics;
  float* gamma_gradient;
  float* beta_gradient;
  float* coefficients;
};

template <class Number, Passed kPassed>
__global__ void __launch_bounds__(kSumThreads, 1)
    sum_gradients(const ChannelGrid grid, const uint4* __restrict__ input, const uint4* __restrict__ output,
                  const uint4* __restrict__ gradient, uint4* __restrict__ masked_gradient,
                  const float* __restrict__ statistics, float* sums, uint32_t* counters, const FinishGradients finish) {
  constexpr int kChannels = kVector<Number>, kLoads = kPassed == Passed::from_output ? 2 : 4;
  const ChannelPlace place(grid);
  ChannelSums<kChannels> own;  // of g, and of g times the distance from the mean
  if (place.active) {
    float mean[kChannels], scale[kChannels], beta[kChannels];
    load_row(statistics, BatchNormStatistics::mean, grid, place, mean);
    if (kPassed == Passed::from_input) {
      load_row(statistics, BatchNormStatistics::scale, grid, place, scale);
      load_row(statistics, BatchNormStatistics::beta, grid, place, beta);
    }
    for (int row = place.first_row; row < grid.rows; row += kLoads * place.step) {
      uint4 x_bits[kLoads], out_bits[kLoads], g_bits[kLoads];
#pragma unroll
      for (int load = 0; load < kLoads; ++load) {
        const int at = row + load * place.step;
        if (at < grid.rows) {
          g_bits[load] = gradient[vector_at(grid, place, at)];
          x_bits[load] = input[vector_at(grid, place, at)];
          if (kPassed == Passed::from_output) out_bits[load] = output[vector_at(grid, place, at)];
        }
      }
#pragma unroll
      for (int load = 0; load < kLoads; ++load) {
        const int at = row + load * place.step;
        if (at < grid.rows) {
          float x[kChannels], out[kChannels], g[kChannels];
          unpack<Number>(x_bits[load], x);
          unpack<Number>(g_bits[load], g);
          if (kPassed == Passed::from_output) unpack<Number>(out_bits[load], out);
#pragma unroll
          for (int i = 0; i < kChannels; ++i) {
            if (kPassed == Passed::from_input && normalised(x[i], mean[i], scale[i], beta[i]) <= 0) g[i] = 0;
            if (kPassed == Passed::from_output && out[i] <= 0) g[i] = 0;
            own.first[i] += g[i];
            own.second[i] = __fmaf_rn(g[i], x[i] - mean[i], own.second[i]);
          }
          if (kPassed == Passed::from_output) masked_gradient[vector_at(grid, place, at)] = pack<Number>(g);
        }
      }
    }
  }
  finish_channels<AddSums>(own, grid, place, sums, counters, finish);
}

template <class Number, bool kFromInput>
__global__ void __launch_bounds__(kPassThreads, kPassResident)
    differentiate(const ChannelGrid grid, const uint4* __restrict__ input, const uint4* __restrict__ gradient,
                  uint4* __restrict__ input_gradient, const float* __restrict__ statistics,
                  const float* __restrict__ coefficients) {
  constexpr int kChannels = kVector<Number>, kLoads = 2;
  const ChannelPlace place(grid);
  if (!place.active) return;
  float mean[kChannels], scale[kChannels], beta[kChannels], offset[kChannels], slope[kChannels];
  load_row(statistics, BatchNormStatistics::mean, grid, place, mean);
  load_row(statistics, BatchNormStatistics::scale, grid, place, scale);
  if (kFromInput) load_row(statistics, BatchNormStatistics::beta, grid, place, beta);
  load_floats(coefficients + place.group * kChannels, offset);
  load_floats(coefficients + grid.channels + place.group * kChannels, slope);
  for (int row = grid.rows - 1 - place.first_row; row >= 0; row -= kLoads * place.step) {
    uint4 x_bits[kLoads], g_bits[kLoads];
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      const int at = row - load * place.step;
      if (at >= 0) {
        g_bits[load] = gradient[vector_at(grid, place, at)];
        x_bits[load] = input[vector_at(grid, place, at)];
      }
    }
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      const int at = row - load * place.step;
      if (at >= 0) {
        float x[kChannels], g[kChannels];
        unpack<Number>(x_bits[load], x);
        unpack<Number>(g_bits[load], g);
#pragma unroll
        for (int i = 0; i < kChannels; ++i) {
          if (kFromInput && normalised(x[i], mean[i], scale[i], beta[i]) <= 0) g[i] = 0;
          x[i] = __fmaf_rn(scale[i], g[i], -__fmaf_rn(slope[i], x[i] - mean[i], offset[i]));
        }
        input_gradient[vector_at(grid, place, at)] = pack<Number>(x);
      }
    }
  }
}

// ---- Launching ------------------------------------------------------------------------------------------------------

dim3 blocks_of(const ChannelGrid& grid) {
  return dim3(static_cast<unsigned>(grid.tiles), static_cast<unsigned>(grid.blocks));
}

template <class Number>
ChannelGrid sum_grid(const BatchNormShape& shape) {
  return channel_grid(shape.rows, shape.channels, kVector<Number>, kSumThreads, kSumLanes,
                      std::min(multiprocessors(), kSumMostBlocks));
}

// All blocks at once for small data; several after each other for large data, whose ends are then less uneven.
template <class Number>
ChannelGrid pass_grid(const BatchNormShape& shape) {
  const int64_t bytes = shape.rows * shape.channels * static_cast<int64_t>(sizeof(Number));
  const int rounds = bytes < 60'000'000 ? 1 : bytes < 150'000'000 ? 2 : 8;
  return channel_grid(shape.rows, shape.channels, kVector<Number>, kPassThreads, kPassThreads,
                      multiprocessors() * kPassResident * rounds);
}

template <class Number, bool kResidual, bool kRelu>
void launch_normalise(const BatchNormForward& pass, DeviceStream stream) {
  const ChannelGrid grid = pass_grid<Number>(pass.shape);
  normalise<Number, kResidual, kRelu><<<blocks_of(grid), kPassThreads, 0, stream>>>(
      grid, static_cast<const uint4*>(pass.input), static_cast<const uint4*>(pass.residual),
      static_cast<uint4*>(pass.output), pass.statistics);
  check_launch("normalise");
}

template <class Number>
void launch_sum_moments(const BatchNormForward& pass, const BatchNormWorkspace& workspace) {
  const ChannelGrid grid = sum_grid<Number>(pass.shape);
  check_device("cudaMemsetAsync",
               cudaMemsetAsync(workspace.counters, 0, kBatchNormCounters * sizeof(uint32_t), workspace.stream));
  const FinishStatistics finish = {.rows = static_cast<float>(pass.shape.rows),
                                   .channels = pass.shape.channels,
                                   .gamma = pass.gamma,
                                   .beta = pass.beta,
                                   .running_mean = pass.running_mean,
                                   .running_variance = pass.running_variance,
                                   .batches = pass.batches,
                                   .momentum = pass.momentum,
                                   .epsilon = pass.epsilon,
                                   .statistics = pass.statistics};
  sum_moments<Number><<<blocks_of(grid), kSumThreads, 0, workspace.stream>>>(
      grid, static_cast<const uint4*>(pass.input), workspace.sums, workspace.counters, finish);
  check_launch("sum_moments");
}

template <class Number>
void forward(const BatchNormForward& pass, const BatchNormWorkspace& workspace, BatchNormPasses passes) {
  if (passes != BatchNormPasses::result) launch_sum_moments<Number>(pass, workspace);
  if (passes == BatchNormPasses::sums) return;
  if (pass.residual != nullptr) {
    pass.relu ? launch_normalise<Number, true, true>(pass, workspace.stream)
              : launch_normalise<Number, true, false>(pass, workspace.stream);
  } else {
    pass.relu ? launch_normalise<Number, false, true>(pass, workspace.stream)
              : launch_normalise<Number, false, false>(pass, workspace.stream);
  }
}

float* coefficients_in(const BatchNormWorkspace& workspace) {
  return workspace.sums + kSumMostBlocks * 2 * kSumLanes * 8;
}

template <class Number, Passed kPassed>
void launch_sum_gradients(const BatchNormBackward& pass, const BatchNormWorkspace& workspace) {
  const ChannelGrid grid = sum_grid<Number>(pass.shape);
  const FinishGradients finish = {.rows = static_cast<float>(pass.shape.rows),
                                  .channels = pass.shape.channels,
                                  .statistics = pass.statistics,
                                  .gamma_gradient = pass.gamma_gradient,
                                  .beta_gradient = pass.beta_gradient,
                                  .coefficients = coefficients_in(workspace)};
  sum_gradients<Number, kPassed><<<blocks_of(grid), kSumThreads, 0, workspace.stream>>>(
      grid, static_cast<const uint4*>(pass.input), static_cast<const uint4*>(pass.output),
      static_cast<const uint4*>(pass.gradient), static_cast<uint4*>(pass.masked_gradient), pass.statistics,
      workspace.sums, workspace.counters, finish);
  check_launch("sum_gradients");
}

template <class Number, Passed kPassed>
void backward(const BatchNormBackward& pass, const BatchNormWorkspace& workspace, BatchNormPasses passes) {
  if (passes != BatchNormPasses::result) launch_sum_gradients<Number, kPassed>(pass, workspace);
  if (passes == BatchNormPasses::sums) return;
  const ChannelGrid grid = pass_grid<Number>(pass.shape);
  const void* const passed = kPassed == Passed::from_output ? pass.masked_gradient : pass.gradient;
  differentiate<Number, kPassed == Passed::from_input><<<blocks_of(grid), kPassThreads, 0, workspace.stream>>>(
      grid, static_cast<const uint4*>(pass.input), static_cast<const uint4*>(passed),
      static_cast<uint4*>(pass.input_gradient), pass.statistics, coefficients_in(workspace));
  check_launch("differentiate");
}

template <class Number>
void backward(const BatchNormBackward& pass, const BatchNormWorkspace& workspace, BatchNormPasses passes) {
  if (!pass.relu) {
    backward<Number, Passed::everywhere>(pass, workspace, passes);
  } else if (pass.masked_gradient == nullptr) {
    backward<Number, Passed::from_input>(pass, workspace, passes);
  } else {
    backward<Number, Passed::from_output>(pass, workspace, passes);
  }
}

}  // namespace

void batch_norm_forward_on_device(const BatchNormForward& pass, const BatchNormWorkspace& workspace,
                                  BatchNormPasses passes) {
  switch (pass.shape.number) {
    case DeviceNumber::f32:
      return forward<float>(pass, workspace, passes);
    case DeviceNumber::f16:
      return forward<__half>(pass, workspace, passes);
    case DeviceNumber::bf16:
      return forward<__nv_bfloat16>(pass, workspace, passes);
  }
}

void batch_norm_backward_on_device(const BatchNormBackward& pass, const BatchNormWorkspace& workspace,
                                   BatchNormPasses passes) {
  switch (pass.shape.number) {
    case DeviceNumber::f32:
      return backward<float>(pass, workspace, passes);
    case DeviceNumber::f16:
      return backward<__half>(pass, workspace, passes);
    case DeviceNumber::bf16:
      return backward<__nv_bfloat16>(pass, workspace, passes);
  }
}

}  // namespace paceline
