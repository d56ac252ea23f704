// One problem of batch normalisation with all that its kernels read and write: the same on a device and on the CPU.
#pragma once

#include <c10/cuda/CUDAStream.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <vector>

#include "paceline/kernels/batch_norm.h"

namespace paceline {

struct BatchNormCase {
  BatchNormCase(torch::Dtype type, int64_t rows, int64_t channels, bool has_residual, bool has_relu) : relu(has_relu) {
    torch::manual_seed(static_cast<uint64_t>(17 * rows + channels));
    const auto data = [&](double mean) { return (mean + 2 * torch::randn({rows, channels}, torch::kCUDA)).to(type); };
    input = data(3);
    gradient = data(0);
    if (has_residual) residual = data(0);
    gamma = 1 + 0.3 * torch::randn({channels}, torch::kCUDA);
    gamma[0].zero_();  // as residual blocks begin
    beta = torch::randn({channels}, torch::kCUDA);
    running_mean = torch::randn({channels}, torch::kCUDA);
    running_variance = torch::rand({channels}, torch::kCUDA);
    batches = torch::full({}, 6, torch::TensorOptions(torch::kCUDA).dtype(torch::kInt64));
    output = torch::empty_like(input);
    input_gradient = torch::empty_like(input);
    if (masks()) masked_gradient = torch::empty_like(input);
    statistics = torch::empty({BatchNormStatistics::rows, channels}, torch::kCUDA);
    gamma_gradient = torch::empty_like(gamma);
    beta_gradient = torch::empty_like(gamma);
    sums = torch::full({static_cast<int64_t>(batch_norm_sums(shape()))}, NAN, torch::kCUDA);
    counters = torch::full({kBatchNormCounters}, 77, torch::TensorOptions(torch::kCUDA).dtype(torch::kInt32));
  }

  int64_t rows() const { return input.size(0); }
  torch::Dtype type() const { return input.scalar_type(); }
  bool masks() const { return residual.defined() && relu; }

  BatchNormShape shape() const {
    return {.rows = input.size(0),
            .channels = input.size(1),
            .number = type() == torch::kFloat32   ? DeviceNumber::f32
                      : type() == torch::kFloat16 ? DeviceNumber::f16
                                                  : DeviceNumber::bf16};
  }

  BatchNormCase copy() const {
    BatchNormCase other = *this;
    for (torch::Tensor* tensor : other.all()) *tensor = tensor->clone();
    return other;
  }

  // The same problem in f32, for the reference.
  BatchNormCase on_cpu() const {
    BatchNormCase other = *this;
    for (torch::Tensor* tensor : other.all()) {
      *tensor = tensor->is_floating_point() ? tensor->to(torch::kCPU, torch::kFloat32) : tensor->cpu();
    }
    return other;
  }

  bool equals(BatchNormCase& other) {
    const auto mine = results(), theirs = other.results();
    for (size_t i = 0; i < mine.size(); ++i) {
      if (!mine[i]->equal(*theirs[i])) return false;
    }
    return true;
  }

  void forward(BatchNormPasses passes = BatchNormPasses::both) {
    const BatchNormForward pass = {.shape = shape(),
                                   .input = input.const_data_ptr(),
                                   .residual = pointer(residual),
                                   .output = output.data_ptr(),
                                   .relu = relu,
                                   .gamma = gamma.const_data_ptr<float>(),
                                   .beta = beta.const_data_ptr<float>(),
                                   .running_mean = running_mean.data_ptr<float>(),
                                   .running_variance = running_variance.data_ptr<float>(),
                                   .batches = batches.data_ptr<int64_t>(),
                                   .momentum = 0.1f,
                                   .epsilon = 1e-5f,
                                   .statistics = statistics.data_ptr<float>()};
    if (input.is_cuda()) {
      batch_norm_forward_on_device(pass, workspace(), passes);
    } else {
      batch_norm_forward_reference(pass);
    }
  }

  void backward(BatchNormPasses passes = BatchNormPasses::both) {
    const BatchNormBackward pass = {.shape = shape(),
                                    .input = input.const_data_ptr(),
                                    .output = masks() ? output.const_data_ptr() : nullptr,
                                    .gradient = gradient.const_data_ptr(),
                                    .relu = relu,
                                    .statistics = statistics.const_data_ptr<float>(),
                                    .masked_gradient = pointer(masked_gradient),
                                    .input_gradient = input_gradient.data_ptr(),
                                    .gamma_gradient = gamma_gradient.data_ptr<float>(),
                                    .beta_gradient = beta_gradient.data_ptr<float>()};
    if (input.is_cuda()) {
      batch_norm_backward_on_device(pass, workspace(), passes);
    } else {
      batch_norm_backward_reference(pass);
    }
  }

  bool relu;
  torch::Tensor input, residual, output, gamma, beta, running_mean, running_variance, batches, statistics;
  torch::Tensor gradient, masked_gradient, input_gradient, gamma_gradient, beta_gradient;
  torch::Tensor sums, counters;

 private:
  static void* pointer(const torch::Tensor& tensor) { return tensor.defined() ? tensor.data_ptr() : nullptr; }

  BatchNormWorkspace workspace() const {
    return {.sums = sums.data_ptr<float>(),
            .counters = static_cast<uint32_t*>(counters.data_ptr()),
            .stream = c10::cuda::getCurrentCUDAStream()};
  }

  std::vector<torch::Tensor*> results() {
    std::vector<torch::Tensor*> tensors = {&output,     &running_mean,   &running_variance, &batches,
                                           &statistics, &input_gradient, &gamma_gradient,   &beta_gradient};
    if (masks()) tensors.push_back(&masked_gradient);
    return tensors;
  }

  std::vector<torch::Tensor*> all() {
    std::vector<torch::Tensor*> tensors = results();
    for (torch::Tensor* tensor : {&input, &gradient, &gamma, &beta, &sums, &counters}) tensors.push_back(tensor);
    if (residual.defined()) tensors.push_back(&residual);
    return tensors;
  }
};

}  // namespace paceline
