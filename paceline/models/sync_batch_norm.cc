#include "paceline/models/sync_batch_norm.h"

#include <ATen/ops/batch_norm_update_stats.h>
#include <ATen/ops/native_batch_norm_backward.h>

namespace paceline {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

torch::Tensor per_channel(const torch::Tensor& vector) { return vector.view({1, -1, 1, 1}); }

// Two vectors and a count as one, in f64: their sums over the ranks take one exchange.
torch::Tensor packed(const torch::Tensor& one, const torch::Tensor& other, double count) {
  return torch::cat({one.to(torch::kCPU, torch::kFloat64), other.to(torch::kCPU, torch::kFloat64),
                     torch::tensor({count}, torch::kFloat64)});
}

class SyncBatchNorm : public torch::autograd::Function<SyncBatchNorm> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& images, const torch::Tensor& weight,
                               const torch::Tensor& bias, const RunningStatistics& running, double epsilon,
                               const SumOverRanks& sum) {
    const int64_t channels = images.size(1);
    const auto values = static_cast<double>(images.numel() / channels);
    auto [own_mean, own_variance] = at::batch_norm_update_stats(images, {}, {}, 0);
    own_mean = own_mean.to(torch::kCPU, torch::kFloat64);
    own_variance = own_variance.to(torch::kCPU, torch::kFloat64);
    torch::Tensor sums = packed(own_mean * values, (own_variance + own_mean * own_mean) * values, values);
    sum(sums);
    const double count = sums[-1].item<double>();
    const torch::Tensor mean = sums.narrow(0, 0, channels) / count;
    const torch::Tensor variance = (sums.narrow(0, channels, channels) / count - mean * mean).clamp_min(0);
    running.mean.mul_(1 - running.momentum).add_(mean.to(running.mean.options()), running.momentum);
    running.variance.mul_(1 - running.momentum)
        .add_((variance * (count / std::max(count - 1, 1.0))).to(running.variance.options()), running.momentum);

    const torch::Tensor center = mean.to(images.options()), spread = variance.to(images.options());
    const torch::Tensor inverse = (variance + epsilon).rsqrt().to(images.options());
    context->save_for_backward({images, weight, center, inverse});
    context->saved_data["count"] = count;
    context->saved_data["epsilon"] = epsilon;
    context->saved_data["sum"] = HeldSum::hold(sum);
    return torch::batch_norm(images, weight, bias, center, spread, /*training=*/false, 0, epsilon, false);
  }

  static tensor_list backward(AutogradContext* context, const tensor_list& outputs) {
    const tensor_list saved = context->get_saved_variables();
    const torch::Tensor &images = saved[0], &weight = saved[1], &mean = saved[2], &inverse = saved[3];
    const torch::Tensor& gradient = outputs[0];
    // Of the parameters alone: with these statistics in the place of the rank's own, they are its share of the whole.
    const auto [none, weight_gradient, bias_gradient] =
        at::native_batch_norm_backward(gradient, images, weight, {}, {}, mean, inverse, /*train=*/true,
                                       context->saved_data["epsilon"].toDouble(), {false, true, true});
    torch::Tensor sums = packed(bias_gradient, weight_gradient, 0);
    HeldSum::of(context->saved_data["sum"])(sums);

    // (gradient - its mean - normalised · its mean product) · weight · inverse, multiplied out.
    const int64_t channels = weight.numel();
    const torch::Tensor means = (sums / context->saved_data["count"].toDouble()).to(gradient.options());
    const torch::Tensor scale = weight * inverse, slope = scale * inverse * means.narrow(0, channels, channels);
    const torch::Tensor offset = slope * mean - scale * means.narrow(0, 0, channels);
    const torch::Tensor images_gradient = torch::addcmul(per_channel(offset), gradient, per_channel(scale));
    return {images_gradient.addcmul_(images, per_channel(slope), -1), weight_gradient, bias_gradient, {}, {}, {}};
  }
};

}  // namespace

torch::Tensor sync_batch_norm(const torch::Tensor& images, const torch::Tensor& weight, const torch::Tensor& bias,
                              const RunningStatistics& running, double epsilon, const SumOverRanks& sum) {
  return SyncBatchNorm::apply(images, weight, bias, running, epsilon, sum);
}

}  // namespace paceline
