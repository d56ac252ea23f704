// Batch normalisation [+ residual] [+ ReLU] as one operation with its own backward, where the kernels of
// kernels/batch_norm.h serve. With a ReLU, forward moves the images 3 times (4 with a residual) where torch's own
// sequence does 5 times (8), backward 5 times (7) instead of 8. It keeps the input, and the output only if a residual
// was added before a ReLU.
//
// On a CPU statistics are exact to f32 however many values a channel has; libtorch adds them up one after the other in
// f32, and is off by half a percent at batches of 8,192.
#pragma once

#include <torch/types.h>

#include "paceline/models/sum_over_ranks.h"

namespace paceline {

// What a layer has of its own: f32 on the device of the images, one number for each channel.
struct BatchNormLayer {
  torch::Tensor weight, bias;                    // gamma, beta
  torch::Tensor running_mean, running_variance;  // moved towards this batch's
  torch::Tensor batches;                         // one int64 that grows by one
  double momentum;                               // the weight of this batch in the running statistics
  double epsilon;
};

// Whether fused_batch_norm() takes these: images (and the residual, if defined, alike) with the channels of a pixel
// side by side, two values per channel at least; on a CPU in f32 or bf16, 16 channels or a multiple; in a CUDA build on
// a CUDA device in f32, f16 or bf16, groups of 16 bytes of channels.
bool fused_batch_norm_serves(const torch::Tensor& images, const torch::Tensor& residual, const BatchNormLayer& layer);

// Training only. Gradients flow to images, weight, bias and residual; those of images and residual have the images'
// layout. Works on torch's current stream, also while it is captured in a graph. With `sum`, on a CPU only, it is over
// the samples of all ranks (sync_batch_norm.h). REQUIRES: fused_batch_norm_serves()
torch::Tensor fused_batch_norm(const torch::Tensor& images, const torch::Tensor& residual, bool relu,
                               const BatchNormLayer& layer, const SumOverRanks& sum = {});

}  // namespace paceline
