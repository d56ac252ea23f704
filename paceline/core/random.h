// Random numbers without state: each is a pure function of a key and an index, so that a run can be resumed anywhere
// and shared among any number of ranks. Philox4x32-10 (Salmon et al., 2011).
//
//   const RandomKey crop = RandomKey(seed).with(epoch).with(sample);
//   const int top = crop.below(0, 9), left = crop.below(1, 9);
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace paceline {

// One Philox4x32-10 block: 128 random bits for a 64-bit key and a 128-bit counter.
std::array<uint32_t, 4> philox(uint64_t key, uint64_t counter_low, uint64_t counter_high);

class RandomKey {
 public:
  explicit RandomKey(uint64_t seed);

  // A key for a part of what this one covers: with(3) and with(4) are unrelated streams.
  RandomKey with(uint64_t part) const;
  RandomKey with(std::string_view name) const;

  uint64_t bits(uint64_t index) const;
  double uniform(uint64_t index) const;                  // [0, 1)
  uint64_t below(uint64_t index, uint64_t bound) const;  // [0, bound). REQUIRES: bound > 0
  // Standard normal numbers, two from each block: elements 2i and 2i+1 of the key's infinite sequence.
  std::array<float, 2> normal_pair(uint64_t pair_index) const;

  uint64_t value() const { return key_; }

 private:
  struct Raw {};
  RandomKey(Raw, uint64_t key) : key_(key) {}
  uint64_t key_;
};

// A random order of 0 … size-1 without an array: position -> element is computed, so that the sample at any position of
// an epoch is known at once. A Feistel network on the next even power of two, walked until it lands inside.
class Permutation {
 public:
  Permutation(RandomKey key, uint64_t size);
  uint64_t operator()(uint64_t position) const;  // REQUIRES: position < size
  uint64_t size() const { return size_; }

 private:
  static constexpr int kRounds = 8;
  std::array<uint64_t, kRounds> round_keys_;
  uint64_t size_;
  int half_bits_;
};

}  // namespace paceline
