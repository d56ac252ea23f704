// Parameter: what an optimizer updates.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <string>
#include <vector>

namespace paceline {

struct Parameter {
  std::string name;
  torch::Tensor tensor;
  bool
      decayed;  // weight decay applies; never to biases and batch normalisation (Jia: this is worth points of accuracy)
  // The copy in half precision or bfloat16 that the model runs on, where it does: every update writes it, and where
  // `tensor` has no gradient, its own is taken.
  torch::Tensor half = {};
};

// Undefined when there is none.
inline torch::Tensor gradient_of(const Parameter& parameter) {
  const torch::Tensor& own = parameter.tensor.grad();
  return own.defined() || !parameter.half.defined() ? own : parameter.half.grad();
}

// Brings the half copies up to date, where a kernel has not.
inline void write_halves(const std::vector<Parameter>& parameters) {
  const torch::NoGradGuard no_grad;
  for (const Parameter& parameter : parameters) {
    if (parameter.half.defined()) parameter.half.detach().copy_(parameter.tensor);
  }
}

// The trainable parameters of a module in their registered order. A tensor of one dimension is a bias, γ or β.
inline std::vector<Parameter> parameters_of(const torch::nn::Module& module) {
  std::vector<Parameter> parameters;
  for (const auto& named : module.named_parameters()) {
    if (named.value().requires_grad()) parameters.push_back({named.key(), named.value(), named.value().dim() > 1});
  }
  return parameters;
}

}  // namespace paceline
