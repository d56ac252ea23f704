#include "paceline/train/loaded_batches.h"

namespace paceline {

std::vector<TrainingBatch> wrapped_slots(Loader& loader) {
  const ImageShape shape = loader.shape();
  const auto capacity = static_cast<int64_t>(loader.slot_capacity());
  std::vector<TrainingBatch> slots;
  for (int slot = 0; slot < loader.slots(); ++slot) {
    slots.push_back({torch::from_blob(loader.slot_images(slot), {capacity, shape.channels, shape.height, shape.width}),
                     torch::from_blob(loader.slot_labels(slot), {capacity}, torch::kInt64), loader.slot_capacity()});
  }
  return slots;
}

LoadedBatches::LoadedBatches(BatchSource source)
    : loader_(std::move(source.dataset), std::move(source.normalisation), std::move(source.options),
              source.cursor_samples),
      slots_(wrapped_slots(loader_)) {}

const TrainingBatch& LoadedBatches::next() {
  const Batch& batch = loader_.next();
  batch_ = slots_[static_cast<size_t>(batch.slot)];
  if (batch.count != batch_.count) {
    const auto count = static_cast<int64_t>(batch.count);
    batch_ = {batch_.images.narrow(0, 0, count), batch_.labels.narrow(0, 0, count), batch.count};
  }
  batch_.global_count = batch.global_count;
  return batch_;
}

}  // namespace paceline
