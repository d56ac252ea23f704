#include "paceline/precision/finite_check.h"

#include <ATen/Parallel.h>

#include <atomic>

#include "paceline/kernels/finite.h"

namespace paceline {
namespace {

constexpr int64_t kPart = 1 << 16;  // elements: less is not worth another thread

bool has_kernel(const torch::Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == torch::kFloat32 && tensor.is_non_overlapping_and_dense();
}

bool any_by_torch(const torch::Tensor& tensor) { return !torch::isfinite(tensor).all().item<bool>(); }

// All tensors as one run that is cut alike, so that small ones do not leave threads without work.
bool any_on_cpu(const std::vector<torch::Tensor>& tensors) {
  struct Part {
    const float* data;
    int64_t count;
  };
  std::vector<Part> parts;
  for (const torch::Tensor& tensor : tensors) {
    if (!has_kernel(tensor)) {
      if (any_by_torch(tensor)) return true;
      continue;
    }
    const float* data = tensor.const_data_ptr<float>();
    for (int64_t begin = 0; begin < tensor.numel(); begin += kPart)
      parts.push_back({data + begin, std::min(kPart, tensor.numel() - begin)});
  }
  std::atomic<bool> found = false;
  at::parallel_for(0, static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end && !found; ++i) {
      const Part& part = parts[static_cast<size_t>(i)];
      if (count_not_finite(part.data, static_cast<size_t>(part.count)) > 0) found = true;
    }
  });
  return found;
}

}  // namespace

torch::Tensor any_not_finite(const std::vector<torch::Tensor>& tensors, torch::Device device) {
  const torch::NoGradGuard no_grad;
  const auto scalar = torch::TensorOptions().dtype(torch::kFloat32).device(device);
  if (device.is_cpu()) return torch::full({}, any_on_cpu(tensors) ? 1.0 : 0.0, scalar);
  torch::Tensor found = torch::zeros({}, scalar);
  // torch's one fused kernel for this also multiplies, here by 1.
  if (!tensors.empty()) at::_amp_foreach_non_finite_check_and_unscale_(tensors, found, torch::ones({}, scalar));
  return found;
}

int64_t count_not_finite(const torch::Tensor& tensor) {
  const torch::NoGradGuard no_grad;
  if (has_kernel(tensor))
    return static_cast<int64_t>(count_not_finite(tensor.const_data_ptr<float>(), static_cast<size_t>(tensor.numel())));
  return tensor.numel() - torch::isfinite(tensor).sum().item<int64_t>();
}

}  // namespace paceline
