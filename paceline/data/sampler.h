// Which samples come next: pure functions of (seed, epoch, position), whatever the number of ranks.
//
// The cursor counts samples since the start of training, not batches: a run that is resumed with another batch size or
// another number of ranks goes on with exactly the samples that were not seen yet.
#pragma once

#include <cstdint>

#include "paceline/core/random.h"

namespace paceline {

// Positions [begin, end) of one epoch.
struct BatchRange {
  uint64_t epoch = 0;
  uint64_t begin = 0, end = 0;

  uint64_t size() const { return end - begin; }
  bool operator==(const BatchRange&) const = default;
};

class Sampler {
 public:
  // Without shuffling, position p is sample p in every epoch. REQUIRES: data_size > 0
  Sampler(uint64_t seed, uint64_t data_size, bool shuffle);

  // The data set's index at a position of an epoch: each index once per epoch. REQUIRES: position < data_size
  uint64_t sample(uint64_t epoch, uint64_t position) const;

 private:
  RandomKey key_;
  uint64_t data_size_;
  bool shuffle_;
};

// The batch that starts at the cursor. A batch never straddles epochs; a short last one is kept.
// REQUIRES: data_size > 0, global_batch > 0
BatchRange next_batch(uint64_t cursor_samples, uint64_t data_size, uint64_t global_batch);

// This rank's share of a batch: contiguous, sizes that differ by one at most (the first ranks take the larger), and
// empty for the last ranks when there are fewer samples than ranks.
BatchRange share(BatchRange global, int rank, int ranks);

}  // namespace paceline
