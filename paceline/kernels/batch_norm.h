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
