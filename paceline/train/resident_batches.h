// ResidentBatches: a data set that lies in a GPU's memory as bytes, and is gathered and augmented there.
//
// Per batch the host draws which samples come and how each is varied, 16 bytes a sample; one copy and one kernel on the
// current stream do the rest. The host never waits, unless it is many batches ahead of the device.
#pragma once

#include <c10/core/Event.h>

#include <vector>

#include "paceline/kernels/augment.h"
#include "paceline/train/batch_buffer.h"

namespace paceline {

class ResidentBatches : public Batches {
 public:
  // Copies the data set; throws DataError where a sample is not what the data set says. A CPU uses the kernel's
  // reference; it is for tests.
  ResidentBatches(BatchSource source, torch::Device device, ImageFormat format);

  const TrainingBatch& next() override;

 private:
  static constexpr size_t kAhead = 8;  // batches that the host may be ahead of their copies

  void upload(const Dataset& dataset, torch::Device device);
  void draw(const BatchRange& mine, AugmentedSample* samples) const;
  AugmentedSample* draws_of(size_t slot);

  const LoaderOptions options_;
  const ImageShape shape_;
  const uint64_t data_size_;
  const Sampler sampler_;
  const Transform transform_;
  const ImageFormat format_;
  const size_t capacity_;
  uint64_t cursor_samples_;
  uint64_t batches_ = 0;

  torch::Tensor set_images_, set_labels_, tables_;
  torch::Tensor draws_;                   // page-locked: kAhead times the draws of a batch
  torch::Tensor draws_there_;             // those of the batch that is current, on the device
  std::vector<c10::Event> draws_copied_;  // of each of the kAhead; none on a CPU
  BatchBuffer buffer_;
};

}  // namespace paceline
