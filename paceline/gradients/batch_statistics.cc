#include "paceline/gradients/batch_statistics.h"

#include "paceline/collectives/sum_over_ranks.h"
#include "paceline/models/layers.h"

namespace paceline {
namespace {

constexpr std::string_view kMean = "running_mean", kVariance = "running_var", kCount = "num_batches_tracked";

// BatchNorm2d::correction() by the name of the layer; nothing of a layer that does not say.
std::map<std::string, double> corrections(const torch::nn::Module& module) {
  std::map<std::string, double> found;
  for (const auto& named : module.named_modules()) {
    const auto* layer = dynamic_cast<const BatchNorm2d*>(named.value().get());
    if (layer != nullptr && layer->correction() > 0) found[named.key()] = layer->correction();
  }
  return found;
}

// One layer's statistics as sums over ranks can be taken of them: means, means of squares, the correction, and 1, all
// times the rank's weight. torch's running variance is that of a sample, n/(n-1) times the mean square deviation: the
// correction, which is 1 where n is not known.
class Layer {
 public:
  Layer(const torch::Tensor& mean, const torch::Tensor& variance, double correction, double weight)
      : mean_(mean), variance_(variance) {
    const torch::Tensor means = mean.to(torch::kCPU, torch::kFloat64);
    const torch::Tensor squares = variance.to(torch::kCPU, torch::kFloat64) / correction + means * means;
    sums_ = torch::cat({means, squares, torch::tensor({correction, 1.0}, torch::kFloat64)}) * weight;
  }
  TensorView sums() const { return {sums_.data_ptr(), static_cast<size_t>(sums_.numel()), DType::f64}; }
  void set_mean() const {
    const int64_t channels = mean_.numel();
    const double weight = sums_[-1].item<double>();
    if (weight == 0) return;
    const torch::Tensor means = sums_.narrow(0, 0, channels) / weight;
    const torch::Tensor squares = sums_.narrow(0, channels, channels) / weight;
    mean_.copy_(means);
    variance_.copy_((squares - means * means).clamp_min(0) * (sums_[-2].item<double>() / weight));
  }

 private:
  torch::Tensor mean_, variance_, sums_;
};

std::string layer_of(const std::string& buffer) {
  const size_t dot = buffer.rfind('.');
  return dot == std::string::npos ? "" : buffer.substr(0, dot);
}

std::string sibling(const std::string& buffer, std::string_view name) {
  const size_t dot = buffer.rfind('.');
  return dot == std::string::npos ? std::string(name) : buffer.substr(0, dot + 1).append(name);
}

}  // namespace

NamedTensors batch_statistics(const torch::nn::Module& module) {
  NamedTensors found;
  for (const auto& buffer : module.named_buffers()) {
    const std::string& name = buffer.key();
    if (name.ends_with(kMean) || name.ends_with(kVariance) || name.ends_with(kCount))
      found.emplace(name, buffer.value());
  }
  return found;
}

void average_batch_statistics(torch::nn::Module& module, Group& group, double weight) {
  if (group.size() == 1) return;
  const torch::NoGradGuard no_grad;
  const NamedTensors live = batch_statistics(module);
  const std::map<std::string, double> known = corrections(module);
  for (const auto& [name, mean] : live) {
    if (!name.ends_with(kMean)) continue;
    const auto variance = live.find(sibling(name, kVariance));
    if (variance == live.end()) continue;
    const auto count = live.find(sibling(name, kCount));
    const bool counts = count == live.end() || count->second.item<int64_t>() > 0;
    const auto correction = known.find(layer_of(name));
    const Layer layer(mean, variance->second, correction == known.end() ? 1 : correction->second, counts ? weight : 0);
    sum_over_ranks(group, layer.sums());
    layer.set_mean();
  }
  for (const auto& [name, tensor] : live) {  // counters: rank 0's, for the saved file's sake
    if (!name.ends_with(kCount)) continue;
    const torch::Tensor carrier = tensor.cpu();  // itself, if it is there already
    group.broadcast({carrier.data_ptr(), static_cast<size_t>(carrier.nbytes()), DType::u8}, 0);
    if (!carrier.is_same(tensor)) tensor.copy_(carrier);
  }
}

AveragedStatistics::AveragedStatistics(torch::nn::Module& module, Group& group, double weight)
    : live_(batch_statistics(module)) {
  if (group.size() == 1) return;
  for (const auto& [name, tensor] : live_) own_[name] = tensor.clone();
  average_batch_statistics(module, group, weight);
}

AveragedStatistics::~AveragedStatistics() {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : own_) live_.at(name).copy_(tensor);
}

}  // namespace paceline
