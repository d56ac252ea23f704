#include "paceline/optim/gradient_norm.h"

#include <ATen/Parallel.h>
#include <ATen/ops/_foreach_norm.h>

#include <cmath>

#include "paceline/kernels/sgd.h"

namespace paceline {
namespace {

constexpr int64_t kBlock = 1 << 16;  // summed by one thread; the order of blocks is fixed, whoever sums them

double squared_length(const torch::Tensor& values) {
  const float* data = values.const_data_ptr<float>();
  const int64_t count = values.numel();
  const int64_t blocks = (count + kBlock - 1) / kBlock;
  std::vector<double> sums(static_cast<size_t>(blocks));
  at::parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kBlock;
      sums[static_cast<size_t>(block)] =
          sum_of_squares(data + first, static_cast<size_t>(std::min(kBlock, count - first)));
    }
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace

double gradient_norm(const std::vector<Parameter>& parameters) {
  const torch::NoGradGuard no_grad;
  double total = 0;
  for (const Parameter& parameter : parameters) {
    const torch::Tensor& gradient = parameter.tensor.grad();
    if (!gradient.defined()) continue;
    if (!gradient.is_cpu()) return gradient_norm_on(gradient.device(), parameters).item<double>();
    total += squared_length(with_layout_of(parameter.tensor, gradient));
  }
  return std::sqrt(total);
}

torch::Tensor gradient_norm_on(torch::Device device, const std::vector<Parameter>& parameters) {
  const torch::NoGradGuard no_grad;
  const auto scalar = torch::TensorOptions(torch::kFloat64).device(device);
  if (device.is_cpu()) return torch::full({}, gradient_norm(parameters), scalar);
  std::vector<torch::Tensor> gradients;
  for (const Parameter& parameter : parameters)
    if (parameter.tensor.grad().defined()) gradients.push_back(parameter.tensor.grad());
  if (gradients.empty()) return torch::zeros({}, scalar);
  // In double precision from the start, as on the CPU: squares of f32 end at gradients of 1.8e19.
  return torch::stack(at::_foreach_norm(gradients, 2, torch::kFloat64)).square().sum().sqrt();
}

double clip_scale(double norm, double max_norm) { return max_norm > 0 && norm > max_norm ? max_norm / norm : 1; }

torch::Tensor clip_scale(const torch::Tensor& norm, double max_norm) {
  return torch::where(norm > max_norm, max_norm / norm, torch::ones_like(norm));
}

torch::Tensor with_layout_of(const torch::Tensor& model, const torch::Tensor& tensor) {
  if (tensor.strides() == model.strides()) return tensor;
  return torch::empty_like(model).copy_(tensor);
}

}  // namespace paceline
