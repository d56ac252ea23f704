// Loader: the batches of one rank, prepared ahead of time on threads, in order, for ever.
//
//   Loader loader(data.train, data.normalisation, {.global_batch = 512, .rank = rank, .ranks = ranks}, cursor_samples);
//   for (;;) step(loader.next());
//
// What comes out is a pure function of the options and the cursor: neither the number of threads nor their timing
// shows.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "paceline/data/sample_reader.h"

namespace paceline {

struct Batch {
  int slot = 0;  // which buffer, 0 … slots()-1: fixed memory, so that callers can wrap each once
  uint64_t epoch = 0;
  uint64_t position = 0;    // of the global batch in the epoch
  size_t global_count = 0;  // samples of the global batch
  size_t count = 0;         // samples in this rank's share; may be 0
  float* images = nullptr;  // count x CHW
  int64_t* labels = nullptr;
};

struct LoaderOptions {
  BatchSchedule global_batch = 128;  // a number, or phases
  int rank = 0, ranks = 1;
  BatchSchedule fill = 1;  // samples that a rank takes before the next one gets any; 1: all ranks share every batch
  int threads = 1;
  int prefetch_batches = 4;  // prepared batches that wait at the most
  int held_batches = 1;      // batches that stay valid: the last so many that next() gave
  uint64_t seed = 1;
  bool shuffle = true;
  Augmentation augmentation;
  std::function<std::shared_ptr<void>(size_t bytes)> allocate = {};  // what slots are made of; empty: the heap
};

// This rank's share of a global batch, and the most samples that it can ever be (the same on every rank).
BatchRange share_of(BatchRange global, const LoaderOptions& options, uint64_t data_size);
size_t largest_share_of(const LoaderOptions& options, uint64_t data_size);

// Allocates nothing per batch. next() is for one thread at a time.
class Loader {
 public:
  // `cursor_samples`: samples already seen since the start of training, by all ranks together.
  Loader(std::shared_ptr<const Dataset> dataset, Normalisation normalisation, LoaderOptions options,
         uint64_t cursor_samples = 0);
  ~Loader();  // at any time; what was prepared is dropped
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch from the cursor on, epoch after epoch; valid until the next call, or for as many calls as batches
  // are held. An exception of the data set arrives here, in place of the batch it spoiled, and again at every later
  // call.
  const Batch& next();

  int slots() const { return static_cast<int>(slots_.size()); }
  size_t slot_capacity() const { return capacity_; }                  // samples per slot, the same on every rank
  float* slot_images(int slot) { return slots_[slot].images.get(); }  // 64-byte aligned, as are the labels
  int64_t* slot_labels(int slot) { return slots_[slot].labels.get(); }
  ImageShape shape() const { return reader_.shape(); }

  // Total time that next() was blocked: more than a little means that the data is the bottleneck.
  int64_t waited_ns() const { return waited_ns_; }

 private:
  template <class T>
  std::shared_ptr<T[]> zeros(size_t count) const;

  struct Slot {
    std::shared_ptr<float[]> images;
    std::shared_ptr<int64_t[]> labels;
    Batch batch;
    std::exception_ptr error;  // why there is no batch
    bool ready = false;        // guarded by mutex_; the rest belongs to one thread at a time
  };

  void prepare_batches(std::stop_token stop, std::span<uint8_t> scratch);
  void fill(Slot& slot, BatchRange global, std::span<uint8_t> scratch) const;

  const LoaderOptions options_;
  const SampleReader reader_;
  size_t capacity_ = 0;
  std::vector<Slot> slots_;  // batch number n lives in slot n modulo slots()

  std::mutex mutex_;
  std::condition_variable_any slot_free_;  // told to the threads
  std::condition_variable batch_ready_;    // told to next()
  uint64_t cursor_samples_;  // guarded by mutex_, as the following: where the next batch to prepare starts
  uint64_t claimed_ = 0;     // batches that a thread has taken up
  uint64_t released_ = 0;    // batches that the caller is done with
  int holding_ = 0;          // batches that the caller has, from number released_ on

  std::atomic<int64_t> waited_ns_ = 0;
  std::vector<std::jthread> threads_;  // last: joined before anything they use goes
};

}  // namespace paceline
