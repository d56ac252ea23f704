#include "paceline/data/sampler.h"

#include <algorithm>
#include <limits>

#include "paceline/core/check.h"

namespace paceline {
namespace {

double epoch_at(uint64_t cursor_samples, uint64_t data_size) {
  return static_cast<double>(cursor_samples) / static_cast<double>(data_size);
}

constexpr uint64_t rounded_up(uint64_t a, uint64_t b) { return a / b + (a % b > 0 ? 1 : 0); }

}  // namespace

Sampler::Sampler(uint64_t seed, uint64_t data_size, bool shuffle)
    : key_(RandomKey(seed).with("order")), data_size_(data_size), shuffle_(shuffle) {
  CHECK_GT(data_size, 0u);
}

EpochOrder::EpochOrder(RandomKey key, uint64_t data_size, bool shuffle)
    : permutation_(key, data_size), shuffle_(shuffle) {}

uint64_t EpochOrder::operator()(uint64_t position) const {
  if (shuffle_) return permutation_(position);
  CHECK_LT(position, permutation_.size());
  return position;
}

EpochOrder Sampler::order(uint64_t epoch) const { return {key_.with(epoch), data_size_, shuffle_}; }

BatchRange next_batch(uint64_t cursor_samples, uint64_t data_size, const BatchSchedule& global_batch) {
  CHECK_GT(data_size, 0u);
  const uint64_t begin = cursor_samples % data_size;
  const uint64_t size = std::min(global_batch.at(epoch_at(cursor_samples, data_size)), data_size - begin);
  return {.epoch = cursor_samples / data_size, .begin = begin, .end = begin + size};
}

double epoch_of(BatchRange batch, uint64_t data_size) {
  return epoch_at(batch.epoch * data_size + batch.begin, data_size);
}

uint64_t first_cursor(double epoch, uint64_t data_size, uint64_t limit) {
  CHECK_GT(data_size, 0u);
  if (epoch_at(limit, data_size) < epoch) return limit;
  uint64_t cursor = std::min(limit, static_cast<uint64_t>(epoch * static_cast<double>(data_size)));
  while (cursor > 0 && epoch_at(cursor - 1, data_size) >= epoch) --cursor;
  while (epoch_at(cursor, data_size) < epoch) ++cursor;
  return cursor;
}

uint64_t steps_in(const BatchSchedule& global_batch, uint64_t data_size, uint64_t total_samples) {
  CHECK_GT(data_size, 0u);
  uint64_t steps = 0;
  for (uint64_t cursor = 0; cursor < total_samples;) {
    const double epoch = epoch_at(cursor, data_size);
    const uint64_t batch = std::min(global_batch.at(epoch), data_size);
    const uint64_t phase_end = first_cursor(global_batch.next_milestone(epoch), data_size, total_samples);
    const uint64_t done = cursor % data_size;  // of this epoch
    if (const uint64_t whole = (phase_end - cursor) / data_size; done == 0 && whole > 0) {
      steps += whole * rounded_up(data_size, batch);
      cursor += whole * data_size;
    } else {  // the last batch of a phase may reach beyond it, but not beyond the epoch
      const uint64_t epoch_left = data_size - done;
      const uint64_t begun = rounded_up(std::min(phase_end - cursor, epoch_left), batch);
      steps += begun;
      cursor += std::min(begun * batch, epoch_left);
    }
  }
  return steps;
}

uint64_t samples_in(const BatchSchedule& global_batch, uint64_t data_size, uint64_t steps) {
  CHECK_GT(data_size, 0u);
  const uint64_t largest = std::min(global_batch.largest(), data_size);
  const uint64_t most = std::numeric_limits<uint64_t>::max();
  uint64_t least = 0, enough = steps > most / largest ? most : steps * largest;
  while (least < enough) {  // the last cursor that takes no more steps
    const uint64_t middle = enough - (enough - least) / 2;
    if (steps_in(global_batch, data_size, middle) <= steps)
      least = middle;
    else
      enough = middle - 1;
  }
  return least;
}

int active_ranks(uint64_t batch, uint64_t fill, int ranks) {
  CHECK_GT(ranks, 0);
  if (fill == 0) return ranks;
  return static_cast<int>(std::clamp<uint64_t>(rounded_up(batch, fill), 1, static_cast<uint64_t>(ranks)));
}

BatchRange share(BatchRange global, int rank, int ranks, int active) {
  CHECK_GT(ranks, 0);
  CHECK_GE(rank, 0);
  CHECK_LT(rank, ranks);
  CHECK_GT(active, 0);
  CHECK_LE(active, ranks);
  if (rank >= active) return {.epoch = global.epoch, .begin = global.end, .end = global.end};
  const uint64_t r = static_cast<uint64_t>(rank);
  const uint64_t each = global.size() / static_cast<uint64_t>(active);
  const uint64_t larger = global.size() % static_cast<uint64_t>(active);  // so many ranks take one more
  const uint64_t begin = global.begin + r * each + std::min(r, larger);
  return {.epoch = global.epoch, .begin = begin, .end = begin + each + (r < larger ? 1 : 0)};
}

BatchRange share(BatchRange global, int rank, int ranks) { return share(global, rank, ranks, ranks); }

uint64_t largest_share(uint64_t largest_batch, uint64_t fill, int ranks) {
  CHECK_GT(ranks, 0);
  return std::max(rounded_up(largest_batch, static_cast<uint64_t>(ranks)), std::min(fill, largest_batch));
}

}  // namespace paceline
