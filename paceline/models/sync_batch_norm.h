// Batch normalisation over the samples of all ranks: what one rank would compute with all of them. Two sums over the
// ranks for each layer and step, one in forward, one in backward, both of 2·channels numbers: nothing hides them.
#pragma once

#include <torch/types.h>

#include <functional>

namespace paceline {

// A vector of f64 on the CPU becomes its sum over the ranks. All ranks call it equally often, in the same order.
using SumOverRanks = std::function<void(torch::Tensor&)>;

struct RunningStatistics {
  torch::Tensor mean, variance;
  double momentum;  // the weight of this batch
};

// `images` are NCHW, of this rank; every rank has at least one. Gradients flow to images, weight and bias.
torch::Tensor sync_batch_norm(const torch::Tensor& images, const torch::Tensor& weight, const torch::Tensor& bias,
                              const RunningStatistics& running, double epsilon, const SumOverRanks& sum);

}  // namespace paceline
