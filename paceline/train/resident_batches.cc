#include "paceline/train/resident_batches.h"

#include <c10/core/DeviceGuard.h>

#include <cstring>
#include <limits>

#include "paceline/core/check.h"
#include "paceline/precision/device_words.h"

namespace paceline {
namespace {

torch::Tensor bytes_on(torch::Device device, size_t bytes, bool pinned = false) {
  return torch::empty({static_cast<int64_t>(bytes)},
                      torch::TensorOptions(torch::kUInt8).device(device).pinned_memory(pinned));
}

}  // namespace

ResidentBatches::ResidentBatches(BatchSource source, torch::Device device, ImageFormat format)
    : options_(std::move(source.options)),
      shape_(source.dataset->shape()),
      data_size_(source.dataset->size()),
      sampler_(options_.seed, data_size_, options_.shuffle),
      transform_(shape_, source.normalisation, options_.augmentation),
      format_(format),
      capacity_(largest_share_of(options_, data_size_)),
      cursor_samples_(source.cursor_samples),
      draws_(bytes_on(torch::kCPU, kAhead * capacity_ * sizeof(AugmentedSample), !device.is_cpu())),
      buffer_(capacity_, shape_, device, format) {
  CHECK_TRUE(kernel_number(format.dtype), "images are f32, f16 or bf16, not {}", torch::toString(format.dtype));
  CHECK_LE(data_size_, std::numeric_limits<uint32_t>::max());
  CHECK_LE(std::max(shape_.height, shape_.width), kLargestAugmentedSide);
  if (!device.is_cpu()) {
    draws_there_ = bytes_on(device, capacity_ * sizeof(AugmentedSample));
    for (size_t i = 0; i < kAhead; ++i) draws_copied_.emplace_back(device.type());
  }
  upload(*source.dataset, device);
}

void ResidentBatches::upload(const Dataset& dataset, torch::Device device) {
  const size_t elements = shape_.elements();
  const size_t at_once = std::min<size_t>(data_size_, (size_t{64} << 20) / elements + 1);
  set_images_ = bytes_on(device, data_size_ * elements);
  const torch::Tensor labels = torch::empty({static_cast<int64_t>(data_size_)}, torch::kInt64);
  torch::Tensor part = bytes_on(torch::kCPU, at_once * elements);
  std::vector<uint8_t> scratch(elements);
  for (size_t first = 0; first < data_size_; first += at_once) {
    const size_t count = std::min<size_t>(at_once, data_size_ - first);
    for (size_t i = 0; i < count; ++i) {
      const LabelledImage sample = checked_sample(dataset, first + i, scratch);
      std::memcpy(part.data_ptr<uint8_t>() + i * elements, sample.bytes.data(), elements);
      labels.data_ptr<int64_t>()[first + i] = sample.label;
    }
    const auto bytes = static_cast<int64_t>(count * elements);
    set_images_.narrow(0, static_cast<int64_t>(first * elements), bytes).copy_(part.narrow(0, 0, bytes));
  }
  set_labels_ = labels.to(device);
  const torch::Tensor tables = torch::empty({shape_.channels, 256}, torch::kFloat32);
  std::memcpy(tables.data_ptr<float>(), transform_.tables().data(), transform_.tables().size_bytes());
  tables_ = tables.to(device);
}

const TrainingBatch& ResidentBatches::next() {
  const BatchRange global = next_batch(cursor_samples_, data_size_, options_.global_batch);
  const BatchRange mine = share_of(global, options_, data_size_);
  cursor_samples_ += global.size();
  const TrainingBatch& batch = buffer_.resize(mine.size(), global.size());
  if (batch.count == 0) return batch;

  const torch::Device device = buffer_.images().device();
  const size_t slot = batches_++ % kAhead;
  if (!device.is_cpu()) draws_copied_[slot].synchronize();  // kAhead batches ago
  draw(mine, draws_of(slot));
  AugmentedBatch work = {.set_images = set_images_.const_data_ptr<uint8_t>(),
                         .set_labels = set_labels_.const_data_ptr<int64_t>(),
                         .tables = tables_.const_data_ptr<float>(),
                         .samples = draws_of(slot),
                         .count = static_cast<int64_t>(batch.count),
                         .channels = shape_.channels,
                         .height = shape_.height,
                         .width = shape_.width,
                         .cutout = options_.augmentation.cutout,
                         .images = buffer_.images().data_ptr(),
                         .labels = buffer_.labels().data_ptr<int64_t>(),
                         .type = kernel_number(format_.dtype).value(),
                         .channels_last = format_.channels_last};
  if (device.is_cpu()) {
    augment_reference(work);
    return batch;
  }
  const c10::DeviceGuard guard(device);
  const auto bytes = static_cast<int64_t>(batch.count * sizeof(AugmentedSample));
  const auto begin = static_cast<int64_t>(slot * capacity_ * sizeof(AugmentedSample));
  draws_there_.narrow(0, 0, bytes).copy_(draws_.narrow(0, begin, bytes), /*non_blocking=*/true);
  draws_copied_[slot].record(current_stream(device));
  work.samples = reinterpret_cast<const AugmentedSample*>(draws_there_.const_data_ptr<uint8_t>());
  augment_on_device(work, kernel_stream(device));
  return batch;
}

void ResidentBatches::draw(const BatchRange& mine, AugmentedSample* samples) const {
  const RandomKey epoch_key = RandomKey(options_.seed).with(mine.epoch);
  const EpochOrder order = sampler_.order(mine.epoch);
  for (uint64_t position = mine.begin; position < mine.end; ++position) {
    const uint64_t index = order(position);
    AugmentationDraw draw;
    if (options_.augmentation.any()) draw = transform_.draw(epoch_key.with(index));
    *samples++ = {.index = static_cast<uint32_t>(index),
                  .mirror = draw.mirror,
                  .shift_down = static_cast<int16_t>(draw.shift_down),
                  .shift_right = static_cast<int16_t>(draw.shift_right),
                  .cut_row = static_cast<int16_t>(draw.cut_row),
                  .cut_column = static_cast<int16_t>(draw.cut_column)};
  }
}

AugmentedSample* ResidentBatches::draws_of(size_t slot) {
  return reinterpret_cast<AugmentedSample*>(draws_.data_ptr<uint8_t>()) + slot * capacity_;
}

}  // namespace paceline
