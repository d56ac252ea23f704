// A loader's buffers as tensors: each is wrapped once, so that a step makes no tensors of its own for them.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "paceline/data/loader.h"

namespace paceline {

class BatchTensors {
 public:
  struct Pair {
    torch::Tensor images, labels;
  };

  BatchTensors(Loader& loader, torch::Device device);

  // The batch on the device. On the CPU these are the loader's own buffers: valid until its next().
  Pair of(const Batch& batch) const;

 private:
  torch::Device device_;
  std::vector<Pair> slots_;
};

}  // namespace paceline
