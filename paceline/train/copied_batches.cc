#include "paceline/train/copied_batches.h"

#include <c10/core/StreamGuard.h>

#include "paceline/precision/device_words.h"
#include "paceline/train/loaded_batches.h"

namespace paceline {
namespace {

std::optional<c10::Stream> another_stream(torch::Device device) {
  if (device.is_cpu()) return std::nullopt;
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

// Only from page-locked memory do copies run beside the host and beside kernels.
std::shared_ptr<void> page_locked(size_t bytes) {
  const auto tensor = std::make_shared<torch::Tensor>(
      torch::empty({static_cast<int64_t>(bytes)}, torch::TensorOptions(torch::kUInt8).pinned_memory(true)));
  return {tensor, tensor->data_ptr()};
}

// A batch is held while it is copied, and another while that one's slot would be taken back.
LoaderOptions for_copies(LoaderOptions options, torch::Device device) {
  options.held_batches = 2;
  if (!device.is_cpu()) options.allocate = page_locked;
  return options;
}

}  // namespace

CopiedBatches::CopiedBatches(BatchSource source, torch::Device device, ImageFormat format)
    : copying_(another_stream(device)),
      loader_(std::move(source.dataset), std::move(source.normalisation), for_copies(std::move(source.options), device),
              source.cursor_samples),
      slots_(wrapped_slots(loader_)),
      buffer_(loader_.slot_capacity(), loader_.shape(), device, format),
      stagings_{Staging(device.type()), Staging(device.type())} {
  for (Staging& staging : stagings_) {
    staging.images = torch::empty_like(slots_.front().images, torch::TensorOptions(device));
    staging.labels = torch::empty_like(slots_.front().labels, torch::TensorOptions(device));
    // What libtorch used this memory for before may still be running.
    if (copying_) staging.consumed.record(current_stream(device));
  }
}

// Memory must not go to others while somebody still copies from it or to it.
CopiedBatches::~CopiedBatches() {
  if (!copying_) return;
  for (const Staging& staging : stagings_) {
    try {
      staging.copied.synchronize();
      staging.consumed.synchronize();
    } catch (const c10::Error&) {  // the device has failed, and with it whatever ran there
    }
  }
}

const TrainingBatch& CopiedBatches::next() {
  if (taken_ == fetched_) fetch();  // the first one
  Staging& staging = stagings_[taken_ % stagings_.size()];
  if (staging.error) std::rethrow_exception(staging.error);
  ++taken_;

  const TrainingBatch& batch = buffer_.resize(staging.count, staging.global_count);
  if (batch.count > 0) {
    const torch::NoGradGuard no_grad;
    const auto count = static_cast<int64_t>(batch.count);
    if (copying_) staging.copied.block(current_stream(batch.images.device()));
    batch.images.copy_(staging.images.narrow(0, 0, count));
    batch.labels.copy_(staging.labels.narrow(0, 0, count));
    if (copying_) staging.consumed.record(current_stream(batch.images.device()));
  }
  fetch();
  return batch;
}

void CopiedBatches::fetch() {
  Staging& staging = stagings_[fetched_++ % stagings_.size()];
  // The loader is about to take back the slot of two batches ago, which was copied to this staging.
  if (copying_) staging.copied.synchronize();
  try {
    const Batch& batch = loader_.next();
    staging.count = batch.count;
    staging.global_count = batch.global_count;
    if (batch.count == 0) return;
    const c10::OptionalStreamGuard guard(copying_);
    if (copying_) staging.consumed.block(*copying_);
    const torch::NoGradGuard no_grad;
    const TrainingBatch& slot = slots_[static_cast<size_t>(batch.slot)];
    const auto count = static_cast<int64_t>(batch.count);
    staging.images.narrow(0, 0, count).copy_(slot.images.narrow(0, 0, count), /*non_blocking=*/true);
    staging.labels.narrow(0, 0, count).copy_(slot.labels.narrow(0, 0, count), /*non_blocking=*/true);
    if (copying_) staging.copied.record(*copying_);
  } catch (...) {
    staging.error = std::current_exception();
  }
}

}  // namespace paceline
