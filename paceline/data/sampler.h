// Which samples come next: pure functions of (seed, epoch, position), whatever the number of ranks.
//
// The cursor counts samples since the start of training, not batches: a run that is resumed with another batch size or
// another number of ranks goes on with exactly the samples that were not seen yet.
#pragma once

#include <cstdint>

#include "paceline/core/random.h"
#include "paceline/schedule/batch_size.h"

namespace paceline {

// Positions [begin, end) of one epoch.
struct BatchRange {
  uint64_t epoch = 0;
  uint64_t begin = 0, end = 0;

  uint64_t size() const { return end - begin; }
  bool operator==(const BatchRange&) const = default;
};

// The order of one epoch: position -> the data set's index, each index once. REQUIRES: position < data_size
class EpochOrder {
 public:
  EpochOrder(RandomKey key, uint64_t data_size, bool shuffle);
  uint64_t operator()(uint64_t position) const;

 private:
  Permutation permutation_;
  bool shuffle_;
};

class Sampler {
 public:
  // Without shuffling, position p is sample p in every epoch. REQUIRES: data_size > 0
  Sampler(uint64_t seed, uint64_t data_size, bool shuffle);

  EpochOrder order(uint64_t epoch) const;  // takes as long as two samples: make it once for many

  // The data set's index at a position of an epoch: each index once per epoch. REQUIRES: position < data_size
  uint64_t sample(uint64_t epoch, uint64_t position) const { return order(epoch)(position); }

 private:
  RandomKey key_;
  uint64_t data_size_;
  bool shuffle_;
};

// The batch that starts at the cursor; its size is that of the epoch at its first sample. A batch never straddles
// epochs; a short last one is kept. REQUIRES: data_size > 0
BatchRange next_batch(uint64_t cursor_samples, uint64_t data_size, const BatchSchedule& global_batch);

// The epoch, as a real number, at which the batch begins: what decides its size.
double epoch_of(BatchRange batch, uint64_t data_size);

// The first cursor whose epoch, as the division rounds it, is not before this one; `limit` where it would lie beyond.
uint64_t first_cursor(double epoch, uint64_t data_size, uint64_t limit);

// How many batches are begun before the cursor reaches `total_samples`, from the start of training. Takes a moment for
// each milestone, not for each batch.
uint64_t steps_in(const BatchSchedule& global_batch, uint64_t data_size, uint64_t total_samples);

// The other way round: where the cursor stands after so many batches.
uint64_t samples_in(const BatchSchedule& global_batch, uint64_t data_size, uint64_t steps);

// How many ranks work on a batch when each takes up to `fill` samples before the next one gets any: the first ones, at
// least one and at most all. 0: all of them.
int active_ranks(uint64_t batch, uint64_t fill, int ranks);

// This rank's share of a batch: contiguous, sizes that differ by one at most among the first `active` ranks (the first
// of them take the larger), and empty for the others, and for the last ranks when there are fewer samples than ranks.
BatchRange share(BatchRange global, int rank, int ranks, int active);
BatchRange share(BatchRange global, int rank, int ranks);  // all are active

// The most samples that a rank ever gets of batches of up to `largest_batch` samples. It is not the largest batch that
// decides: with `fill` samples one rank takes all of a batch of that size, two ranks halve one of a sample more.
uint64_t largest_share(uint64_t largest_batch, uint64_t fill, int ranks);

}  // namespace paceline
