#include "paceline/data/loader.h"

#include <algorithm>
#include <new>
#include <utility>

#include "paceline/core/check.h"
#include "paceline/core/clock.h"

namespace paceline {
namespace {

LoaderOptions checked(LoaderOptions options) {
  CHECK_GT(options.ranks, 0);
  CHECK_GE(options.rank, 0);
  CHECK_LT(options.rank, options.ranks);
  CHECK_GT(options.threads, 0);
  CHECK_GT(options.prefetch_batches, 0);
  CHECK_GT(options.held_batches, 0);
  return options;
}

std::shared_ptr<void> aligned_memory(size_t bytes) {
  constexpr std::align_val_t kAlignment{64};
  return {::operator new(bytes, kAlignment), [](void* memory) { ::operator delete(memory, kAlignment); }};
}

}  // namespace

BatchRange share_of(BatchRange global, const LoaderOptions& options, uint64_t data_size) {
  const uint64_t each = options.fill.at(epoch_of(global, data_size));
  return share(global, options.rank, options.ranks, active_ranks(global.size(), each, options.ranks));
}

size_t largest_share_of(const LoaderOptions& options, uint64_t data_size) {
  const uint64_t largest_batch = std::min<uint64_t>(options.global_batch.largest(), data_size);
  return largest_share(largest_batch, options.fill.largest(), options.ranks);
}

template <class T>
std::shared_ptr<T[]> Loader::zeros(size_t count) const {
  const std::shared_ptr<void> memory =
      options_.allocate ? options_.allocate(count * sizeof(T)) : aligned_memory(count * sizeof(T));
  T* const first = static_cast<T*>(memory.get());
  std::fill_n(first, count, T{});  // also makes the pages resident before the first batch
  return {memory, first};
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, Normalisation normalisation, LoaderOptions options,
               uint64_t cursor_samples)
    : options_(checked(std::move(options))),
      reader_(std::move(dataset), normalisation, options_.augmentation, options_.seed, options_.shuffle),
      cursor_samples_(cursor_samples) {
  capacity_ = largest_share_of(options_, reader_.data_size());

  slots_.resize(static_cast<size_t>(options_.prefetch_batches + options_.held_batches));
  for (Slot& slot : slots_) {
    slot.images = zeros<float>(capacity_ * shape().elements());
    slot.labels = zeros<int64_t>(capacity_);
    slot.batch.slot = static_cast<int>(&slot - slots_.data());
    slot.batch.images = slot.images.get();
    slot.batch.labels = slot.labels.get();
  }

  threads_.reserve(static_cast<size_t>(options_.threads));
  for (int i = 0; i < options_.threads; ++i) {
    threads_.emplace_back([this, scratch = std::vector<uint8_t>(shape().elements())](std::stop_token stop) mutable {
      prepare_batches(std::move(stop), scratch);
    });
  }
}

Loader::~Loader() {
  for (std::jthread& thread : threads_) thread.request_stop();  // all at once; then each is joined
}

const Batch& Loader::next() {
  std::unique_lock lock(mutex_);
  if (holding_ == options_.held_batches) {
    --holding_;
    slots_[released_++ % slots_.size()].ready = false;
    slot_free_.notify_one();
  }
  Slot& slot = slots_[(released_ + static_cast<uint64_t>(holding_)) % slots_.size()];
  if (!slot.ready) {
    const SteadyClock clock;
    const int64_t from_ns = clock.now_ns();
    batch_ready_.wait(lock, [&] { return slot.ready; });
    waited_ns_ += clock.now_ns() - from_ns;
  }
  if (slot.error) std::rethrow_exception(slot.error);
  ++holding_;
  return slot.batch;
}

// One thread: takes up the next batch as soon as a slot is free. Batches are numbered when they are taken up and come
// out by number, so that it does not matter which thread is done first.
void Loader::prepare_batches(std::stop_token stop, std::span<uint8_t> scratch) {
  for (;;) {
    std::unique_lock lock(mutex_);
    slot_free_.wait(lock, stop, [&] { return claimed_ < released_ + slots_.size(); });
    if (stop.stop_requested()) return;
    Slot& slot = slots_[claimed_++ % slots_.size()];
    const BatchRange global = next_batch(cursor_samples_, reader_.data_size(), options_.global_batch);
    cursor_samples_ += global.size();
    lock.unlock();

    try {
      fill(slot, global, scratch);
    } catch (...) {
      slot.error = std::current_exception();
    }

    lock.lock();
    slot.ready = true;
    lock.unlock();
    batch_ready_.notify_one();
  }
}

void Loader::fill(Slot& slot, BatchRange global, std::span<uint8_t> scratch) const {
  const BatchRange mine = share_of(global, options_, reader_.data_size());
  slot.batch.epoch = global.epoch;
  slot.batch.position = global.begin;
  slot.batch.global_count = global.size();
  slot.batch.count = mine.size();
  reader_.read(mine, scratch, slot.batch.images, slot.batch.labels);
}

}  // namespace paceline
