// Batch normalisation [+ residual] [+ ReLU] while training, forward and backward, each as few passes over memory as its
// sums allow. Data are rows x channels, channels fastest: images whose channels lie side by side, a row for each pixel.
//
//   forward    out = [relu]( (x - mean)·scale + beta [+ residual] ),   scale = gamma / sqrt(variance + epsilon)
//   backward   g = gradient where the ReLU let something pass, else 0;  the residual's gradient is g
//              beta' = Σ g,   gamma' = Σ g·n,   x' = scale·(g - beta'/rows - n·gamma'/rows)
//              where n = (x - mean)/deviation
//
// (x - mean)·scale + beta is rounded as one fused multiply-add in both directions, so that both agree on what passed
// the ReLU. mean and variance are those of the rows. The running ones move by `momentum` towards them (the variance
// towards its unbiased estimate), as torch's do. What is not a number passes the ReLU, in both directions: it must not
// disappear.
//
// On a device, in units of the data: forward reads x twice and the residual once, and writes once; backward reads x and
// the gradient twice and writes once. With a residual and a ReLU the first pass of backward also reads `out` and writes
// g, which the second reads in the gradient's place. Sums are made in f32 and in a fixed order: the same bits in every
// run on the same kind of card. Nothing waits for the device or allocates, so all of it can be captured in a CUDA
// graph; `momentum` and `epsilon` are then those of the capture.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "paceline/kernels/on_device.h"

namespace paceline {

struct BatchNormShape {
  int64_t rows = 0;
  int64_t channels = 0;
  DeviceNumber number = DeviceNumber::f32;  // of x, residual, out and their gradients; everything else is f32
};

// Rows of what forward leaves for backward, each with a number for every channel.
struct BatchNormStatistics {
  enum Row : int { mean, inverse_deviation, scale, beta, rows };
};

struct BatchNormForward {
  BatchNormShape shape;
  const void* input = nullptr;
  const void* residual = nullptr;  // null: nothing is added
  void* output = nullptr;
  bool relu = false;
  const float* gamma = nullptr;
  const float* beta = nullptr;
  float* running_mean = nullptr;
  float* running_variance = nullptr;
  int64_t* batches = nullptr;  // null, or a count that grows by one
  float momentum = 0.1f;       // the weight of this batch in the running statistics
  float epsilon = 1e-5f;
  float* statistics = nullptr;  // BatchNormStatistics::rows x channels, written
};

struct BatchNormBackward {
  BatchNormShape shape;
  const void* input = nullptr;     // of forward
  const void* output = nullptr;    // of forward; read only when masked_gradient is there
  const void* gradient = nullptr;  // of the output
  bool relu = false;
  const float* statistics = nullptr;  // of forward
  // Where g goes. With a ReLU and a residual it must be there, as only the output knows what passed; with a ReLU alone
  // it is null, and that is found again from the input; without a ReLU it is null, and the gradient is g.
  void* masked_gradient = nullptr;
  void* input_gradient = nullptr;
  float* gamma_gradient = nullptr;
  float* beta_gradient = nullptr;
};

// Plain loops over f32, sums in f64: what is right.
void batch_norm_forward_reference(const BatchNormForward& pass);
void batch_norm_backward_reference(const BatchNormBackward& pass);

// ---- On a CPU -------------------------------------------------------------------------------------------------------
// f32 or bf16. Without fused multiply-adds, but alike in both directions. Backward passes are as on a device; sums are
// made in f64 of sums over a few rows, and chunks of rows are fixed: the same bits on any number of threads.

// Whether these loops take data of this shape: vectors of 16 channels. Others are left to libtorch.
constexpr bool batch_norm_serves(const BatchNormShape& shape) {
  return shape.rows >= 2 && shape.channels > 0 && shape.channels % 16 == 0 && shape.number != DeviceNumber::f16;
}

// Calls the second for every number below the first, on as many threads as it likes; returns when all are through.
using ForEachChunk = std::function<void(int64_t chunks, const std::function<void(int64_t chunk)>&)>;

// REQUIRES: batch_norm_serves(shape), here and below
void batch_norm_forward(const BatchNormForward& pass, const ForEachChunk& for_each);
void batch_norm_backward(const BatchNormBackward& pass, const ForEachChunk& for_each);

// The same in two steps, between which others' rows may be counted in: `count` is then that of all.
struct BatchNormMoment {
  double mean = 0, variance = 0;
};
using BatchNormMoments = std::vector<BatchNormMoment>;  // by channel
BatchNormMoments batch_norm_moments(const BatchNormForward& pass, const ForEachChunk& for_each);
void batch_norm_forward_with(const BatchNormMoments& moments, double count, const BatchNormForward& pass,
                             const ForEachChunk& for_each);
// Writes beta_gradient and gamma_gradient, of these rows, and masked_gradient.
void batch_norm_backward_sums(const BatchNormBackward& pass, const ForEachChunk& for_each);
void batch_norm_backward_with(const float* beta_gradient, const float* gamma_gradient, double count,
                              const BatchNormBackward& pass, const ForEachChunk& for_each);

// ---- On a device ----------------------------------------------------------------------------------------------------

constexpr int64_t kBatchNormCounters = 128;  // at most so many groups of channels are summed at once

// Whether the kernels take data of this shape. They move 16 bytes at a time, so channels must come in such groups.
constexpr bool batch_norm_on_device_serves(const BatchNormShape& shape) {
  const int64_t group = shape.number == DeviceNumber::f32 ? 4 : 8;
  return shape.rows >= 2 && shape.rows <= int64_t{1} << 30 && shape.channels > 0 && shape.channels % group == 0 &&
         shape.channels / group <= 32 * kBatchNormCounters;
}

// How many numbers `sums` must have room for.
constexpr size_t batch_norm_sums(const BatchNormShape& shape) {
  constexpr size_t kMostBlocks = 192, kBlockSums = 2 * 32 * 8;
  return kMostBlocks * kBlockSums + 2 * static_cast<size_t>(shape.channels);
}

// Memory of the device, for one call at a time; the same may serve all calls of a stream.
struct BatchNormWorkspace {
  float* sums = nullptr;         // batch_norm_sums(), aligned to 16 bytes; what it holds does not matter
  uint32_t* counters = nullptr;  // kBatchNormCounters; backward needs zeros, as both directions leave them
  DeviceStream stream = nullptr;
};

// Both directions have a pass that sums and one that writes the result. One alone is for those who measure it.
enum class BatchNormPasses { both, sums, result };

// All data are aligned to 16 bytes and lie on the current device. REQUIRES: batch_norm_on_device_serves(shape)
void batch_norm_forward_on_device(const BatchNormForward& pass, const BatchNormWorkspace& workspace,
                                  BatchNormPasses passes = BatchNormPasses::both);
void batch_norm_backward_on_device(const BatchNormBackward& pass, const BatchNormWorkspace& workspace,
                                   BatchNormPasses passes = BatchNormPasses::both);

}  // namespace paceline
