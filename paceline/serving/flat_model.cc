#include "paceline/serving/flat_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "paceline/core/check.h"
#include "paceline/gradients/batch_statistics.h"
#include "paceline/models/layers.h"

namespace paceline {
namespace {

torch::Tensor view_of(std::span<const float> values, const torch::Tensor& like) {
  return torch::from_blob(const_cast<float*>(values.data()), like.sizes(), torch::kFloat32);
}

void copy_out(const torch::Tensor& tensor, std::span<float> into) { view_of(into, tensor).copy_(tensor.detach()); }

bool is_variance(const std::string& name) { return name.ends_with("running_var"); }
bool is_mean(const std::string& name) { return name.ends_with("running_mean"); }
bool is_counter(const std::string& name) { return name.ends_with("num_batches_tracked"); }
double start_of(const std::string& name) { return is_variance(name) ? 1 : 0; }
// What part of averages over so many batches is of samples, not of their start.
double part_seen(double batches) { return 1 - std::pow(1 - BatchNorm2d::kMomentum, batches); }

}  // namespace

FlatModel::FlatModel(std::shared_ptr<Model> model) : model_(std::move(model)), parameters_(parameters_of(*model_)) {
  for (const Parameter& parameter : parameters_) count_ += static_cast<uint64_t>(parameter.tensor.numel());
}

std::vector<float> FlatModel::weights() const {
  std::vector<float> flat(count_);
  size_t at = 0;
  for (const Parameter& parameter : parameters_) {
    const auto count = static_cast<size_t>(parameter.tensor.numel());
    copy_out(parameter.tensor, std::span(flat).subspan(at, count));
    at += count;
  }
  return flat;
}

void FlatModel::load(std::span<const float> weights) {
  CHECK_EQ(weights.size(), count_);
  const torch::NoGradGuard no_grad;
  size_t at = 0;
  for (const Parameter& parameter : parameters_) {
    const auto count = static_cast<size_t>(parameter.tensor.numel());
    parameter.tensor.detach().copy_(view_of(weights.subspan(at, count), parameter.tensor));
    at += count;
  }
}

void FlatModel::gather_gradient(std::span<float> gradient) const {
  CHECK_EQ(gradient.size(), count_);
  size_t at = 0;
  for (const Parameter& parameter : parameters_) {
    const std::span<float> place = gradient.subspan(at, static_cast<size_t>(parameter.tensor.numel()));
    if (const torch::Tensor& own = parameter.tensor.grad(); own.defined()) {
      copy_out(own, place);
    } else {
      std::ranges::fill(place, 0.0f);
    }
    at += place.size();
  }
}

std::vector<float> FlatModel::statistics() const {
  std::vector<float> flat;
  for (const auto& [name, tensor] : batch_statistics(*model_)) {
    const size_t at = flat.size();
    flat.resize(at + static_cast<size_t>(tensor.numel()));
    copy_out(tensor.to(torch::kFloat32), std::span(flat).subspan(at));
  }
  return flat;
}

// Names come in order: a layer's counter, its means, its variances.
void FlatModel::load_mean_statistics(const std::vector<std::span<const float>>& of_workers) {
  const torch::NoGradGuard no_grad;
  size_t at = 0;
  std::vector<double> seen(of_workers.size(), 1);
  torch::Tensor spread;  // of the workers' means in the layer whose variance comes next
  for (const auto& [name, tensor] : batch_statistics(*model_)) {
    const auto count = static_cast<size_t>(tensor.numel());
    std::vector<torch::Tensor> values;
    for (const std::span<const float> worker : of_workers) {
      CHECK_LE(at + count, worker.size());
      values.push_back(view_of(worker.subspan(at, count), tensor).to(torch::kFloat64));
    }
    at += count;
    if (is_counter(name))
      for (size_t worker = 0; worker < values.size(); ++worker) seen[worker] = part_seen(values[worker].item<double>());
    const double all = std::accumulate(seen.begin(), seen.end(), 0.0);
    if (all <= 0) continue;
    const double start = start_of(name);
    torch::Tensor mean = torch::zeros(tensor.sizes(), torch::kFloat64), squares = mean.clone();
    for (size_t worker = 0; worker < values.size(); ++worker) {
      if (seen[worker] <= 0) continue;
      const torch::Tensor own =
          is_counter(name) ? values[worker] : (values[worker] - (1 - seen[worker]) * start) / seen[worker];
      mean += seen[worker] / all * own;
      squares += seen[worker] / all * own * own;
    }
    if (is_mean(name)) {
      spread = squares - mean * mean;
    } else if (is_variance(name) && spread.defined()) {
      mean += spread;
    }
    tensor.copy_(mean.to(tensor.scalar_type()));
  }
}

void FlatModel::go_on_with_mean_statistics() {
  const torch::NoGradGuard no_grad;
  double seen = 1;
  for (const auto& [name, tensor] : batch_statistics(*model_)) {
    if (is_counter(name)) {
      seen = part_seen(tensor.item<double>());
    } else {
      tensor.mul_(seen).add_((1 - seen) * start_of(name));
    }
  }
}

}  // namespace paceline
