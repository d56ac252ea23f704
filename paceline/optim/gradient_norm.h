// The length of all gradients together, for clipping.
#pragma once

#include <vector>

#include "paceline/optim/parameter.h"

namespace paceline {

// √(Σ g²) over all parameters that have a gradient, in double precision; its bits do not depend on the number of
// threads.
double gradient_norm(const std::vector<Parameter>& parameters);

// The factor that brings gradients of length `norm` down to `max_norm`; 1 when they are shorter, or when max_norm is 0
// (off).
double clip_scale(double norm, double max_norm);

// `tensor` itself when its elements lie in memory as those of `model` do; else a copy that does.
torch::Tensor with_layout_of(const torch::Tensor& model, const torch::Tensor& tensor);

}  // namespace paceline
