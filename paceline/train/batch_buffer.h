// BatchBuffer: memory of a device for the batch that is current. Batches of as many samples are the same tensors' worth
// of it every time.
#pragma once

#include "paceline/train/batches.h"

namespace paceline {

class BatchBuffer {
 public:
  BatchBuffer(size_t capacity, ImageShape shape, torch::Device device, ImageFormat format)
      : images_(
            torch::empty({static_cast<int64_t>(capacity), shape.channels, shape.height, shape.width},
                         torch::TensorOptions(format.dtype).device(device),
                         format.channels_last ? torch::MemoryFormat::ChannelsLast : torch::MemoryFormat::Contiguous)),
        labels_(torch::empty({static_cast<int64_t>(capacity)}, torch::TensorOptions(torch::kInt64).device(device))) {
    resize(capacity, capacity);
  }

  // The place of a batch's first `count` samples.
  const TrainingBatch& resize(size_t count, size_t global_count) {
    if (!batch_.images.defined() || count != batch_.count) {
      batch_.images = images_.narrow(0, 0, static_cast<int64_t>(count));
      batch_.labels = labels_.narrow(0, 0, static_cast<int64_t>(count));
    }
    batch_.count = count;
    batch_.global_count = global_count;
    return batch_;
  }

  const torch::Tensor& images() const { return images_; }  // for as many samples as there is room
  const torch::Tensor& labels() const { return labels_; }

 private:
  torch::Tensor images_, labels_;
  TrainingBatch batch_;
};

}  // namespace paceline
