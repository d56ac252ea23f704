#include "paceline/models/layers.h"

#include <fmt/format.h>

#include "paceline/core/error.h"
#include "paceline/models/fused_batch_norm.h"
#include "paceline/models/sync_batch_norm.h"

namespace paceline {

Conv2d::Conv2d(const ConvShape& shape) : shape_(shape) {
  weight_ =
      register_parameter("weight", torch::empty({shape.out, shape.in / shape.groups, shape.kernel, shape.kernel}));
  if (shape.bias) bias_ = register_parameter("bias", torch::empty({shape.out}));
}

torch::Tensor Conv2d::forward(const torch::Tensor& images) const {
  return torch::conv2d(images, weight_, bias_, shape_.stride, shape_.padding, /*dilation=*/1, shape_.groups);
}

Linear::Linear(int64_t in, int64_t out) {
  weight_ = register_parameter("weight", torch::empty({out, in}));
  bias_ = register_parameter("bias", torch::empty({out}));
}

torch::Tensor Linear::forward(const torch::Tensor& features) const { return torch::linear(features, weight_, bias_); }

BatchNorm2d::BatchNorm2d(int64_t channels, double initial_gamma) : initial_gamma_(initial_gamma) {
  weight_ = register_parameter("weight", torch::empty({channels}));
  bias_ = register_parameter("bias", torch::empty({channels}));
  running_mean_ = register_buffer("running_mean", torch::empty({channels}));
  running_var_ = register_buffer("running_var", torch::empty({channels}));
  num_batches_tracked_ = register_buffer("num_batches_tracked", torch::empty({}, torch::kInt64));
}

void BatchNorm2d::reset() {
  torch::NoGradGuard no_grad;
  weight_.fill_(initial_gamma_);
  bias_.zero_();
  running_mean_.zero_();
  running_var_.fill_(1);
  num_batches_tracked_.zero_();
}

void BatchNorm2d::note_batch(int64_t values_per_channel) {
  values_per_channel_ = values_per_channel;
  if (values_per_channel < 2) return;
  const auto values = static_cast<double>(values_per_channel);
  const double correction = values / (values - 1);
  correction_ = correction_ == 0 ? correction : correction_ + momentum_ * (correction - correction_);
}

torch::Tensor BatchNorm2d::forward(const torch::Tensor& images, const torch::Tensor& residual, bool relu) {
  torch::Tensor out;
  if (is_training()) {
    if (images.numel() == images.size(1) && !sum_) {
      throw TrainingError(
          fmt::format("batch normalisation of {} channels met a batch of {} sample whose image has shrunk to {}x{} "
                      "pixel: one value has "
                      "no variance; use larger batches or images",
                      images.size(1), images.size(0), images.size(2), images.size(3)));
    }
    note_batch(images.numel() / images.size(1));
    const BatchNormLayer layer = {weight_,   bias_,   running_mean_, running_var_, num_batches_tracked_,
                                  momentum_, kEpsilon};
    if ((!sum_ || images.is_cpu()) && fused_batch_norm_serves(images, residual, layer))
      return fused_batch_norm(images, residual, relu, layer, sum_);
    num_batches_tracked_.add_(1);
    if (sum_) {  // in f32, whatever the convolutions compute in: torch's own keeps f32 statistics by itself
      out = sync_batch_norm(images.to(weight_.scalar_type()), weight_, bias_, {running_mean_, running_var_, momentum_},
                            kEpsilon, sum_)
                .to(images.scalar_type());
    }
  }
  if (!out.defined()) {
    out = torch::batch_norm(images, weight_, bias_, running_mean_, running_var_, is_training(), momentum_, kEpsilon,
                            /*cudnn_enabled=*/true);
  }
  return finish_block(out, residual, relu);
}

torch::Tensor finish_block(torch::Tensor out, const torch::Tensor& residual, bool relu) {
  if (residual.defined()) out.add_(residual);
  if (relu) out.relu_();
  return out;
}

torch::Tensor channels_last(const torch::Tensor& images) {
  if (!images.is_cpu()) return images;
  const torch::Tensor grouped = images.contiguous(torch::MemoryFormat::ChannelsLast);
  // With one channel both layouts are the same bytes; only strides that say so make torch choose this one.
  const int64_t channels = images.size(1), height = images.size(2), width = images.size(3);
  return grouped.as_strided(images.sizes(), {height * width * channels, 1, width * channels, channels});
}

torch::Tensor drop(const torch::Tensor& features, double rate, bool training) {
  return training && rate > 0 ? torch::dropout(features, rate, /*train=*/true) : features;
}

}  // namespace paceline
