#include "paceline/data/sampler.h"

#include <algorithm>

#include "paceline/core/check.h"

namespace paceline {

Sampler::Sampler(uint64_t seed, uint64_t data_size, bool shuffle)
    : key_(RandomKey(seed).with("order")), data_size_(data_size), shuffle_(shuffle) {
  CHECK_GT(data_size, 0u);
}

uint64_t Sampler::sample(uint64_t epoch, uint64_t position) const {
  CHECK_LT(position, data_size_);
  return shuffle_ ? Permutation(key_.with(epoch), data_size_)(position) : position;
}

BatchRange next_batch(uint64_t cursor_samples, uint64_t data_size, uint64_t global_batch) {
  CHECK_GT(data_size, 0u);
  CHECK_GT(global_batch, 0u);
  const uint64_t begin = cursor_samples % data_size;
  return {
      .epoch = cursor_samples / data_size, .begin = begin, .end = begin + std::min(global_batch, data_size - begin)};
}

BatchRange share(BatchRange global, int rank, int ranks) {
  CHECK_GT(ranks, 0);
  CHECK_GE(rank, 0);
  CHECK_LT(rank, ranks);
  const uint64_t r = static_cast<uint64_t>(rank);
  const uint64_t each = global.size() / static_cast<uint64_t>(ranks);
  const uint64_t larger = global.size() % static_cast<uint64_t>(ranks);  // so many ranks take one more
  const uint64_t begin = global.begin + r * each + std::min(r, larger);
  return {.epoch = global.epoch, .begin = begin, .end = begin + each + (r < larger ? 1 : 0)};
}

}  // namespace paceline
