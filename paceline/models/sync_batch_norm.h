// Batch normalisation over the samples of all ranks: what one rank would compute with all of them. Two sums over the
// ranks for each layer and step, one in forward, one in backward, both of 2·channels numbers: nothing hides them.
#pragma once

#include <torch/types.h>

#include "paceline/models/sum_over_ranks.h"

namespace paceline {

struct RunningStatistics {
  torch::Tensor mean, variance;
  double momentum;  // the weight of this batch
};

// `images` are NCHW, of this rank; every rank has at least one. Gradients flow to images, weight and bias.
torch::Tensor sync_batch_norm(const torch::Tensor& images, const torch::Tensor& weight, const torch::Tensor& bias,
                              const RunningStatistics& running, double epsilon, const SumOverRanks& sum);

}  // namespace paceline
