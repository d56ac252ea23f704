// Where a parameter's gradient lies in a run of f32: with the parameter's own shape and strides, so that optimizers
// walk both alike.
#pragma once

#include <torch/types.h>

#include <vector>

namespace paceline {

inline std::vector<int64_t> strides_for(const torch::Tensor& parameter) {
  return parameter.is_non_overlapping_and_dense() ? parameter.strides().vec() : parameter.contiguous().strides().vec();
}

// A view of the floats that begin at `data`, which must outlive it.
inline torch::Tensor place_in(float* data, const torch::Tensor& parameter) {
  return torch::from_blob(data, parameter.sizes(), strides_for(parameter), torch::kFloat32);
}

}  // namespace paceline
