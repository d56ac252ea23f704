#include "paceline/train/batch_tensors.h"

namespace paceline {

BatchTensors::BatchTensors(Loader& loader, torch::Device device) : device_(device) {
  const ImageShape shape = loader.shape();
  const auto capacity = static_cast<int64_t>(loader.slot_capacity());
  for (int slot = 0; slot < loader.slots(); ++slot) {
    slots_.push_back({torch::from_blob(loader.slot_images(slot), {capacity, shape.channels, shape.height, shape.width}),
                      torch::from_blob(loader.slot_labels(slot), {capacity}, torch::kInt64)});
  }
}

BatchTensors::Pair BatchTensors::of(const Batch& batch) const {
  const Pair& slot = slots_[static_cast<size_t>(batch.slot)];
  const auto count = static_cast<int64_t>(batch.count);
  if (device_.is_cpu() && count == slot.labels.size(0)) return slot;
  return {slot.images.narrow(0, 0, count).to(device_), slot.labels.narrow(0, 0, count).to(device_)};
}

}  // namespace paceline
