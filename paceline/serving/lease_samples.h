// LeaseSamples: the samples of a lease as tensors, with the pixels that training over ranks gives them.
#pragma once

#include <torch/types.h>

#include <memory>
#include <vector>

#include "paceline/data/sample_reader.h"
#include "paceline/train/batches.h"

namespace paceline {

class LeaseSamples {
 public:
  LeaseSamples(std::shared_ptr<const Dataset> dataset, const Normalisation& normalisation, Augmentation augmentation,
               uint64_t seed, torch::Device device);

  // Positions of one epoch's order. Valid until the next call. Throws what the data set throws.
  TrainingBatch load(const BatchRange& range);

 private:
  SampleReader reader_;
  torch::Device device_;
  std::vector<uint8_t> scratch_;
  torch::Tensor images_, labels_;  // on the host; grow as needed
};

}  // namespace paceline
