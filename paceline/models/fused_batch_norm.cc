#include "paceline/models/fused_batch_norm.h"

#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>
#include <torch/autograd.h>

#include <optional>

#include "paceline/core/check.h"
#include "paceline/kernels/batch_norm.h"
#include "paceline/models/visible_operation.h"
#include "paceline/precision/device_words.h"

namespace paceline {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

BatchNormShape shape_of(const torch::Tensor& images) {
  const int64_t channels = images.size(1);
  return {
      .rows = images.numel() / channels, .channels = channels, .number = kernel_number(images.scalar_type()).value()};
}

bool is_rows_of_channels(const torch::Tensor& images) {
  return images.is_contiguous(torch::MemoryFormat::ChannelsLast) &&
         reinterpret_cast<uintptr_t>(images.const_data_ptr()) % 16 == 0;
}

torch::Tensor as_rows_of_channels(const torch::Tensor& images) {
  const torch::Tensor grouped = images.contiguous(torch::MemoryFormat::ChannelsLast);
  return is_rows_of_channels(grouped) ? grouped : grouped.clone(torch::MemoryFormat::ChannelsLast);
}

torch::Tensor empty_images_like(const torch::Tensor& images) {
  // Images of one pixel have both layouts at once. A CPU's convolutions must think that it is the other one: to compute
  // with channels side by side they would first reorder filters that are larger than the images.
  if (images.is_cpu() && images.is_contiguous()) return torch::empty(images.sizes(), images.options());
  return torch::empty_like(images, images.options(), torch::MemoryFormat::ChannelsLast);
}

bool belongs_to(const torch::Tensor& images, const torch::Tensor& per_channel) {
  return per_channel.device() == images.device() && per_channel.scalar_type() == torch::kFloat32 &&
         per_channel.is_contiguous() && per_channel.numel() == images.size(1);
}

// For one call: kernels that follow on the stream may have the memory once it is let go.
torch::Tensor make_sums(const torch::Tensor& images) {
  return torch::empty({static_cast<int64_t>(batch_norm_sums(shape_of(images)))},
                      images.options().dtype(torch::kFloat32));
}

BatchNormWorkspace workspace(const torch::Tensor& sums, const torch::Tensor& counters) {
  return {.sums = sums.data_ptr<float>(),
          .counters = static_cast<uint32_t*>(counters.data_ptr()),
          .stream = kernel_stream(sums.device())};
}

void on_threads(int64_t chunks, const std::function<void(int64_t chunk)>& visit) {
  at::parallel_for(0, chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t chunk = begin; chunk < end; ++chunk) visit(chunk);
  });
}

// Over the rows of all ranks, or of this one alone; returns how many these are.
double forward_on_cpu(const BatchNormForward& pass, const SumOverRanks& sum) {
  BatchNormMoments moments = batch_norm_moments(pass, on_threads);
  auto count = static_cast<double>(pass.shape.rows);
  if (sum) {
    torch::Tensor sums = torch::empty({2 * pass.shape.channels + 1}, torch::kFloat64);
    double* const of = sums.data_ptr<double>();
    const size_t channels = moments.size();
    for (size_t c = 0; c < channels; ++c) {
      of[c] = moments[c].mean * count;
      of[channels + c] = (moments[c].variance + moments[c].mean * moments[c].mean) * count;
    }
    of[2 * channels] = count;
    sum(sums);
    count = of[2 * channels];
    for (size_t c = 0; c < channels; ++c) {
      const double mean = of[c] / count, variance = of[channels + c] / count - mean * mean;
      moments[c] = {.mean = mean, .variance = variance < 0 ? 0 : variance};
    }
  }
  batch_norm_forward_with(moments, count, pass, on_threads);
  return count;
}

// gamma_gradient and beta_gradient are this rank's share of the sums that the input's gradient is made with.
void backward_on_cpu(const BatchNormBackward& pass, double count, const SumOverRanks& sum) {
  batch_norm_backward_sums(pass, on_threads);
  if (!sum) return batch_norm_backward_with(pass.beta_gradient, pass.gamma_gradient, count, pass, on_threads);
  const int64_t channels = pass.shape.channels;
  torch::Tensor sums = torch::zeros({2 * channels + 1}, torch::kFloat64);
  double* const of = sums.data_ptr<double>();
  for (int64_t c = 0; c < channels; ++c) of[c] = pass.beta_gradient[c], of[channels + c] = pass.gamma_gradient[c];
  sum(sums);
  const torch::Tensor all = sums.to(torch::kFloat32);
  const float* const beta = all.const_data_ptr<float>();
  batch_norm_backward_with(beta, beta + channels, count, pass, on_threads);
}

class FusedBatchNorm : public torch::autograd::Function<FusedBatchNorm> {
 public:
  // weight and bias are here once more, beside the layer, because autograd sees arguments only.
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& images, const torch::Tensor& /*weight*/,
                               const torch::Tensor& /*bias*/, const std::optional<torch::Tensor>& residual, bool relu,
                               const BatchNormLayer& layer, const SumOverRanks& sum) {
    const c10::DeviceGuard guard(images.device());
    const BatchNormShape shape = shape_of(images);
    const torch::Tensor output = empty_images_like(images);
    const torch::Tensor statistics =
        torch::empty({BatchNormStatistics::rows, shape.channels}, images.options().dtype(torch::kFloat32));
    const BatchNormForward pass = {.shape = shape,
                                   .input = images.const_data_ptr(),
                                   .residual = residual ? residual->const_data_ptr() : nullptr,
                                   .output = output.data_ptr(),
                                   .relu = relu,
                                   .gamma = layer.weight.const_data_ptr<float>(),
                                   .beta = layer.bias.const_data_ptr<float>(),
                                   .running_mean = layer.running_mean.data_ptr<float>(),
                                   .running_variance = layer.running_variance.data_ptr<float>(),
                                   .batches = layer.batches.data_ptr<int64_t>(),
                                   .momentum = static_cast<float>(layer.momentum),
                                   .epsilon = static_cast<float>(layer.epsilon),
                                   .statistics = statistics.data_ptr<float>()};
    torch::Tensor counters;
    if (images.is_cpu()) {
      context->saved_data["count"] = forward_on_cpu(pass, sum);
      if (sum) context->saved_data["sum"] = HeldSum::hold(sum);
    } else {
      counters = torch::empty({kBatchNormCounters}, statistics.options().dtype(torch::kInt32));
      batch_norm_forward_on_device(pass, workspace(make_sums(images), counters));
    }
    const bool keeps_output = relu && residual;
    context->save_for_backward({images, statistics, counters, keeps_output ? output : torch::Tensor()});
    context->saved_data["relu"] = relu;
    context->saved_data["residual"] = residual.has_value();
    return output;
  }

  static tensor_list backward(AutogradContext* context, const tensor_list& outputs) {
    CHECK_TRUE(!torch::GradMode::is_enabled(), "fused batch normalisation has no second derivative");
    const tensor_list saved = context->get_saved_variables();
    const torch::Tensor &images = saved[0], &statistics = saved[1], &counters = saved[2], &output = saved[3];
    const bool relu = context->saved_data["relu"].toBool();
    const c10::DeviceGuard guard(images.device());
    const torch::Tensor gradient = as_rows_of_channels(outputs[0]);
    const torch::Tensor images_gradient = empty_images_like(images);
    const torch::Tensor weight_gradient = torch::empty({images.size(1)}, statistics.options());
    const torch::Tensor bias_gradient = torch::empty_like(weight_gradient);
    torch::Tensor residual_gradient;
    if (context->saved_data["residual"].toBool()) residual_gradient = relu ? empty_images_like(images) : gradient;
    const BatchNormBackward pass = {.shape = shape_of(images),
                                    .input = images.const_data_ptr(),
                                    .output = output.defined() ? output.const_data_ptr() : nullptr,
                                    .gradient = gradient.const_data_ptr(),
                                    .relu = relu,
                                    .statistics = statistics.const_data_ptr<float>(),
                                    .masked_gradient = output.defined() ? residual_gradient.data_ptr() : nullptr,
                                    .input_gradient = images_gradient.data_ptr(),
                                    .gamma_gradient = weight_gradient.data_ptr<float>(),
                                    .beta_gradient = bias_gradient.data_ptr<float>()};
    if (images.is_cpu()) {
      const auto held = context->saved_data.find("sum");
      const bool over_ranks = held != context->saved_data.end();
      backward_on_cpu(pass, context->saved_data["count"].toDouble(),
                      over_ranks ? HeldSum::of(held->second) : SumOverRanks());
    } else {
      batch_norm_backward_on_device(pass, workspace(make_sums(images), counters));
    }
    return {images_gradient, weight_gradient, bias_gradient, residual_gradient, {}, {}, {}};
  }
};

}  // namespace

bool fused_batch_norm_serves(const torch::Tensor& images, const torch::Tensor& residual, const BatchNormLayer& layer) {
  if (images.dim() != 4 || images.numel() == 0 || !kernel_number(images.scalar_type())) return false;
  const bool on_device =
      device_kernels_are_built() && images.is_cuda() && batch_norm_on_device_serves(shape_of(images));
  if (!on_device && !(images.is_cpu() && batch_norm_serves(shape_of(images)))) return false;
  if (!is_rows_of_channels(images)) return false;
  if (residual.defined() && (residual.device() != images.device() || residual.sizes() != images.sizes() ||
                             residual.scalar_type() != images.scalar_type() || !is_rows_of_channels(residual))) {
    return false;
  }
  return belongs_to(images, layer.weight) && belongs_to(images, layer.bias) && belongs_to(images, layer.running_mean) &&
         belongs_to(images, layer.running_variance) && layer.batches.device() == images.device();
}

torch::Tensor fused_batch_norm(const torch::Tensor& images, const torch::Tensor& residual, bool relu,
                               const BatchNormLayer& layer, const SumOverRanks& sum) {
  CHECK_TRUE(!sum || images.is_cpu(), "statistics of several ranks on {}", images.device().str());
  CHECK_TRUE(fused_batch_norm_serves(images, residual, layer), "images of {} channels on {}", images.size(1),
             images.device().str());
  const auto added = residual.defined() ? std::optional(residual) : std::nullopt;
  return visible("paceline::fused_batch_norm", {images, layer.weight, layer.bias},
                 [&] { return FusedBatchNorm::apply(images, layer.weight, layer.bias, added, relu, layer, sum); });
}

}  // namespace paceline
