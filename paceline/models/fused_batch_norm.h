// Batch normalisation [+ residual] [+ ReLU] as one operation with its own backward, where the kernels of
// kernels/batch_norm.h serve. With a ReLU, forward moves the images 3 times (4 with a residual) where torch's own
// sequence does 5 times (8), backward 5 times (7) instead of 8. It keeps the input, and the output only if a residual
// was added before a ReLU.
#pragma once

#include <torch/types.h>

namespace paceline {

// What a layer has of its own: f32 on the device of the images, one number for each channel.
struct BatchNormLayer {
  torch::Tensor weight, bias;                    // gamma, beta
  torch::Tensor running_mean, running_variance;  // moved towards this batch's
  torch::Tensor batches;                         // one int64 that grows by one
  double momentum;                               // the weight of this batch in the running statistics
  double epsilon;
};

// Whether fused_batch_norm() takes these: a CUDA build, images (and the residual, if defined, alike) on a CUDA device
// in f32, f16 or bf16 with the channels of a pixel side by side, groups of 16 bytes of channels, two values per channel
// at least.
bool fused_batch_norm_serves(const torch::Tensor& images, const torch::Tensor& residual, const BatchNormLayer& layer);

// Training only. Gradients flow to images, weight, bias and residual; those of images and residual have the images'
// layout. Works on torch's current stream, also while it is captured in a graph. REQUIRES: fused_batch_norm_serves()
torch::Tensor fused_batch_norm(const torch::Tensor& images, const torch::Tensor& residual, bool relu,
                               const BatchNormLayer& layer);

}  // namespace paceline
