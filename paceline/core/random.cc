#include "paceline/core/random.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "paceline/core/check.h"

namespace paceline {
namespace {

// A finaliser with full avalanche (splitmix64's constants).
constexpr uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

constexpr uint64_t hash_text(std::string_view text) {  // FNV-1a
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

}  // namespace

std::array<uint32_t, 4> philox(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
                               static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(product1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(product1),
         static_cast<uint32_t>(product0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(product0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

RandomKey::RandomKey(uint64_t seed) : key_(mix(seed + 0x9e3779b97f4a7c15ull)) {}

RandomKey RandomKey::with(uint64_t part) const {
  // Not a sum or xor of the two: seed 1, epoch 2 and seed 2, epoch 1 must be different streams.
  const auto block = philox(key_, part, 2);  // bits() has counters 0, normal_pair() 1
  return RandomKey(Raw{}, (uint64_t{block[1]} << 32) | block[0]);
}

RandomKey RandomKey::with(std::string_view name) const { return with(hash_text(name)); }

uint64_t RandomKey::bits(uint64_t index) const {
  const auto block = philox(key_, index, 0);
  return (uint64_t{block[1]} << 32) | block[0];
}

double RandomKey::uniform(uint64_t index) const { return static_cast<double>(bits(index) >> 11) * 0x1p-53; }

uint64_t RandomKey::below(uint64_t index, uint64_t bound) const {
  CHECK_GT(bound, 0u);
  // The high half of bits · bound; its bias is bound / 2^64.
  return static_cast<uint64_t>((static_cast<unsigned __int128>(bits(index)) * bound) >> 64);
}

std::array<float, 2> RandomKey::normal_pair(uint64_t pair_index) const {
  const auto block = philox(key_, pair_index, 1);
  const float radius_draw = (static_cast<float>(block[0] >> 8) + 0.5f) * 0x1p-24f;  // (0, 1): the logarithm is finite
  const float angle_draw = static_cast<float>(block[1] >> 8) * 0x1p-24f;
  const float radius = std::sqrt(-2.0f * std::log(radius_draw));
  const float angle = 2.0f * std::numbers::pi_v<float> * angle_draw;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

Permutation::Permutation(RandomKey key, uint64_t size) : size_(size) {
  CHECK_LT(size, uint64_t{1} << 62);
  const int bits = size <= 1 ? 2 : std::bit_width(size - 1);
  half_bits_ = (bits + 1) / 2;
  for (int round = 0; round < kRounds; ++round) round_keys_[round] = key.with(round).value();
}

uint64_t Permutation::operator()(uint64_t position) const {
  CHECK_LT(position, size_);
  const uint64_t half_mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t element = position;
  do {  // the domain is less than four times the size: four walks on average at the most
    uint64_t left = element >> half_bits_, right = element & half_mask;
    for (const uint64_t round_key : round_keys_) {
      const uint64_t next = left ^ (mix(right ^ round_key) & half_mask);
      left = right;
      right = next;
    }
    element = (left << half_bits_) | right;
  } while (element >= size_);
  return element;
}

}  // namespace paceline
