// Are these tensors finite?
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace paceline {

// 1 where any element of any tensor is not finite, else 0: f32 of no dimension, on `device`, where the tensors are. On
// the CPU this is one pass over all of them, shared among the threads; on a device it does not wait for it.
torch::Tensor any_not_finite(const std::vector<torch::Tensor>& tensors, torch::Device device);

// How many elements are not. Waits for the device.
int64_t count_not_finite(const torch::Tensor& tensor);

}  // namespace paceline
