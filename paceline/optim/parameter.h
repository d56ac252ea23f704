// Parameter: what an optimizer updates.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

namespace paceline {

struct Parameter {
  std::string name;
  torch::Tensor tensor;
  bool
      decayed;  // weight decay applies; never to biases and batch normalisation (Jia: this is worth points of accuracy)
};

// The trainable parameters of a module in their registered order. A tensor of one dimension is a bias, γ or β.
inline std::vector<Parameter> parameters_of(const torch::nn::Module& module) {
  std::vector<Parameter> parameters;
  for (const auto& named : module.named_parameters()) {
    if (named.value().requires_grad()) parameters.push_back({named.key(), named.value(), named.value().dim() > 1});
  }
  return parameters;
}

}  // namespace paceline
