#include "paceline/serving/flat_model.h"

#include <algorithm>

#include "paceline/core/check.h"
#include "paceline/gradients/batch_statistics.h"

namespace paceline {
namespace {

torch::Tensor view_of(std::span<const float> values, const torch::Tensor& like) {
  return torch::from_blob(const_cast<float*>(values.data()), like.sizes(), torch::kFloat32);
}

void copy_out(const torch::Tensor& tensor, std::span<float> into) { view_of(into, tensor).copy_(tensor.detach()); }

bool is_variance(const std::string& name) { return name.ends_with("running_var"); }
bool is_mean(const std::string& name) { return name.ends_with("running_mean"); }

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

void FlatModel::load_mean_statistics(const std::vector<std::span<const float>>& of_workers) {
  if (of_workers.empty()) return;
  const torch::NoGradGuard no_grad;
  const double share = 1.0 / static_cast<double>(of_workers.size());
  size_t at = 0;
  torch::Tensor mean_of_squares, squared_mean;  // of the layer whose variance comes next
  for (const auto& [name, tensor] : batch_statistics(*model_)) {
    torch::Tensor mean = torch::zeros(tensor.sizes(), torch::kFloat64);
    torch::Tensor squares = torch::zeros(tensor.sizes(), torch::kFloat64);
    const auto count = static_cast<size_t>(tensor.numel());
    for (const std::span<const float> worker : of_workers) {
      CHECK_LE(at + count, worker.size());
      const torch::Tensor values = view_of(worker.subspan(at, count), tensor).to(torch::kFloat64);
      mean += share * values;
      squares += share * values * values;
    }
    if (is_mean(name)) {
      mean_of_squares = squares;
      squared_mean = mean * mean;
    } else if (is_variance(name) && squared_mean.defined()) {
      mean += mean_of_squares - squared_mean;  // how far the workers' means lie apart
    }
    tensor.copy_(mean.to(tensor.scalar_type()));
    at += count;
  }
}

}  // namespace paceline
