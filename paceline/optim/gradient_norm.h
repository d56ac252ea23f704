// The length of all gradients together, for clipping.
#pragma once

#include <vector>

#include "paceline/optim/parameter.h"

namespace paceline {

// √(Σ g²) over all parameters that have a gradient, all of which are on one device; on the CPU in double precision,
// with bits that do not depend on the number of threads. On a device it waits for it.
double gradient_norm(const std::vector<Parameter>& parameters);

// The same as f64 of no dimension on `device`, where the gradients are, which is not waited for.
torch::Tensor gradient_norm_on(torch::Device device, const std::vector<Parameter>& parameters);

// The factor that brings gradients of length `norm` down to `max_norm`; 1 when they are shorter, or when max_norm is 0
// (off).
double clip_scale(double norm, double max_norm);
torch::Tensor clip_scale(const torch::Tensor& norm, double max_norm);  // REQUIRES: max_norm > 0

// `tensor` itself when its elements lie in memory as those of `model` do; else a copy that does.
torch::Tensor with_layout_of(const torch::Tensor& model, const torch::Tensor& tensor);

}  // namespace paceline
