#include "paceline/data/loader.h"

#include <algorithm>
#include <utility>

#include "paceline/core/check.h"
#include "paceline/core/clock.h"

namespace paceline {
namespace {

std::shared_ptr<const Dataset> not_empty(std::shared_ptr<const Dataset> dataset) {
  CHECK_TRUE(dataset != nullptr, "a loader needs a data set");
  if (dataset->size() == 0) throw DataError("the data set holds no samples");
  return dataset;
}

LoaderOptions checked(LoaderOptions options) {
  CHECK_GT(options.ranks, 0);
  CHECK_GE(options.rank, 0);
  CHECK_LT(options.rank, options.ranks);
  CHECK_GT(options.threads, 0);
  CHECK_GT(options.prefetch_batches, 0);
  return options;
}

}  // namespace

template <class T>
Loader::Buffer<T> Loader::zeros(size_t count) {
  T* memory = static_cast<T*>(::operator new(count * sizeof(T), kAlignment));
  std::fill_n(memory, count, T{});  // also makes the pages resident before the first batch
  return Buffer<T>(memory);
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, Normalisation normalisation, LoaderOptions options,
               uint64_t cursor_samples)
    : dataset_(not_empty(std::move(dataset))),
      options_(checked(std::move(options))),
      shape_(dataset_->shape()),
      sampler_(options_.seed, dataset_->size(), options_.shuffle),
      transform_(shape_, normalisation, options_.augmentation),
      cursor_samples_(cursor_samples) {
  const uint64_t largest_batch = std::min<uint64_t>(options_.global_batch.largest(), dataset_->size());
  capacity_ = largest_share(largest_batch, options_.fill.largest(), options_.ranks);

  slots_.resize(static_cast<size_t>(options_.prefetch_batches) + 1);  // and the one that the caller holds
  for (Slot& slot : slots_) {
    slot.images = zeros<float>(capacity_ * shape_.elements());
    slot.labels = zeros<int64_t>(capacity_);
    slot.batch.slot = static_cast<int>(&slot - slots_.data());
    slot.batch.images = slot.images.get();
    slot.batch.labels = slot.labels.get();
  }

  threads_.reserve(static_cast<size_t>(options_.threads));
  for (int i = 0; i < options_.threads; ++i) {
    threads_.emplace_back([this, scratch = std::vector<uint8_t>(shape_.elements())](std::stop_token stop) mutable {
      prepare_batches(std::move(stop), scratch);
    });
  }
}

Loader::~Loader() {
  for (std::jthread& thread : threads_) thread.request_stop();  // all at once; then each is joined
}

const Batch& Loader::next() {
  std::unique_lock lock(mutex_);
  if (std::exchange(holding_, false)) {
    slots_[released_++ % slots_.size()].ready = false;
    slot_free_.notify_one();
  }
  Slot& slot = slots_[released_ % slots_.size()];
  if (!slot.ready) {
    const SteadyClock clock;
    const int64_t from_ns = clock.now_ns();
    batch_ready_.wait(lock, [&] { return slot.ready; });
    waited_ns_ += clock.now_ns() - from_ns;
  }
  if (slot.error) std::rethrow_exception(slot.error);
  holding_ = true;
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
    const BatchRange global = next_batch(cursor_samples_, dataset_->size(), options_.global_batch);
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
  const uint64_t each = options_.fill.at(epoch_of(global, dataset_->size()));
  const int active = active_ranks(global.size(), each, options_.ranks);
  const BatchRange mine = share(global, options_.rank, options_.ranks, active);
  slot.batch.epoch = global.epoch;
  slot.batch.position = global.begin;
  slot.batch.global_count = global.size();
  slot.batch.count = mine.size();

  const RandomKey epoch_key = RandomKey(options_.seed).with(global.epoch);
  float* image = slot.batch.images;
  int64_t* label = slot.batch.labels;
  for (uint64_t position = mine.begin; position < mine.end; ++position) {
    const uint64_t sample = sampler_.sample(global.epoch, position);
    const std::span<const uint8_t> bytes = dataset_->image(sample, scratch);
    *label = dataset_->label(sample);
    if (bytes.size() != shape_.elements() || *label < 0 || *label >= dataset_->classes()) [[unlikely]] {
      throw DataError(fmt::format("sample {}: expected {} bytes and a label below {}, found {} bytes and label {}",
                                  sample, shape_.elements(), dataset_->classes(), bytes.size(), *label));
    }
    transform_(bytes, epoch_key.with(sample), image);
    image += shape_.elements();
    ++label;
  }
}

}  // namespace paceline
