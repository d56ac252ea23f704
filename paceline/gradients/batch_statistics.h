// Batch normalisation over several ranks: each has statistics of its own batches; what is evaluated, saved and hashed
// has the mean of all (Lu, Mikami).
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include "paceline/comm/group.h"
#include "paceline/models/safetensors.h"

namespace paceline {

// The running means and variances of a module, and their counters: the live tensors.
NamedTensors batch_statistics(const torch::nn::Module& module);

// Every rank's statistics become the mean over the ranks: of means, and of squares, from which the variance follows.
// `weight` is this rank's in that mean (StatisticsShare::weight()); layers of a rank that have seen no batch yet do not
// count. The same bits on every rank.
void average_batch_statistics(torch::nn::Module& module, Group& group, double weight);

// While this lives, the module has the mean over the ranks; afterwards each has its own again.
class AveragedStatistics {
 public:
  AveragedStatistics(torch::nn::Module& module, Group& group, double weight);
  ~AveragedStatistics();
  AveragedStatistics(const AveragedStatistics&) = delete;
  AveragedStatistics& operator=(const AveragedStatistics&) = delete;

 private:
  NamedTensors live_;
  NamedTensors own_;  // copies
};

}  // namespace paceline
