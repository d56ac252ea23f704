// For tests: a weight matrix and a bias whose gradients are set by hand.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include "paceline/optim/parameter.h"

namespace paceline {

struct TestLayer : torch::nn::Module {
  explicit TestLayer(torch::Dtype dtype = torch::kFloat32)
      : weight(register_parameter("weight", torch::linspace(-1, 1, 300 * 201, dtype).view({300, 201}))),
        bias(register_parameter("bias", torch::linspace(0.5, 2, 300, dtype))) {}

  void set_gradients(int step) {
    const auto wave = [&](const torch::Tensor& like, double from) {
      return torch::sin(torch::arange(like.numel(), torch::kFloat64) + from).to(like.dtype()).view_as(like);
    };
    weight.mutable_grad() = wave(weight, step);
    bias.mutable_grad() = wave(bias, step + 0.5);
  }

  torch::Tensor weight, bias;
};

// The largest difference between elements, in double precision.
inline double distance(const torch::Tensor& a, const torch::Tensor& b) {
  return (a.detach().to(torch::kFloat64) - b.detach().to(torch::kFloat64)).abs().max().item<double>();
}

// The same as a share of the largest element expected.
inline double relative_distance(const torch::Tensor& a, const torch::Tensor& expected) {
  return distance(a, expected) / expected.abs().max().item<double>();
}

}  // namespace paceline
