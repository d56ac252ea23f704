#include "paceline/models/sync_batch_norm.h"

namespace paceline {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

const std::vector<int64_t> kAllButChannels = {0, 2, 3};

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
    torch::Tensor sums = packed(images.sum(kAllButChannels, false, torch::kFloat64),
                                images.to(torch::kFloat64).square().sum(kAllButChannels), values);
    sum(sums);
    const double count = sums[-1].item<double>();
    const torch::Tensor mean = sums.narrow(0, 0, channels) / count;
    const torch::Tensor variance = (sums.narrow(0, channels, channels) / count - mean * mean).clamp_min(0);
    running.mean.mul_(1 - running.momentum).add_(mean.to(running.mean.options()), running.momentum);
    running.variance.mul_(1 - running.momentum)
        .add_((variance * (count / std::max(count - 1, 1.0))).to(running.variance.options()), running.momentum);

    const torch::Tensor inverse = (variance + epsilon).rsqrt().to(images.options());
    const torch::Tensor normalised = (images - per_channel(mean.to(images.options()))) * per_channel(inverse);
    context->save_for_backward({normalised, weight, inverse});
    context->saved_data["count"] = count;
    context->saved_data["sum"] = torch::IValue::make_capsule(c10::make_intrusive<Held>(sum));
    return normalised * per_channel(weight) + per_channel(bias);
  }

  static tensor_list backward(AutogradContext* context, const tensor_list& outputs) {
    const tensor_list saved = context->get_saved_variables();
    const torch::Tensor &normalised = saved[0], &weight = saved[1], &inverse = saved[2];
    const torch::Tensor& gradient = outputs[0];
    const torch::Tensor bias_gradient = gradient.sum(kAllButChannels);
    const torch::Tensor weight_gradient = (gradient * normalised).sum(kAllButChannels);
    torch::Tensor sums = packed(bias_gradient, weight_gradient, 0);
    static_cast<Held&>(*context->saved_data["sum"].toCapsule()).sum(sums);

    const int64_t channels = weight.numel();
    const torch::Tensor means = (sums / context->saved_data["count"].toDouble()).to(gradient.options());
    const torch::Tensor images_gradient = (gradient - per_channel(means.narrow(0, 0, channels)) -
                                           normalised * per_channel(means.narrow(0, channels, channels))) *
                                          per_channel(weight * inverse);
    return {images_gradient, weight_gradient, bias_gradient, {}, {}, {}};
  }

 private:
  struct Held : torch::CustomClassHolder {
    explicit Held(SumOverRanks held) : sum(std::move(held)) {}
    SumOverRanks sum;
  };
};

}  // namespace

torch::Tensor sync_batch_norm(const torch::Tensor& images, const torch::Tensor& weight, const torch::Tensor& bias,
                              const RunningStatistics& running, double epsilon, const SumOverRanks& sum) {
  return SyncBatchNorm::apply(images, weight, bias, running, epsilon, sum);
}

}  // namespace paceline
