// SparseWire: some elements of an array with their indices, for the codecs that leave the others out.
//
//   u32 entries | u32 index each, ascending | f32 value each          entries = 2^32-1: f32 for every element instead
//
// As soon as that is no longer, every element is sent: an array never takes more than its own size and 4 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace paceline {

// What is sent: all above a magnitude (kernels/magnitude.h), and the first `equal` of those that have it; `entries`
// altogether.
struct SparseChoice {
  int32_t magnitude = 0;
  size_t equal = 0;
  size_t entries = 0;
};

// Whether `entries` of `count` elements go with their indices.
constexpr bool goes_with_indices(size_t entries, size_t count) { return 2 * entries < count; }
constexpr size_t sparse_bytes(size_t entries, size_t count) {
  return sizeof(uint32_t) + (goes_with_indices(entries, count) ? 2 * entries : count) * sizeof(uint32_t);
}

// Where the entries of a wire lie.
struct SparseEntries {
  uint32_t* indices;
  float* values;
};
SparseEntries begin_sparse(std::span<std::byte> wire, size_t entries, size_t count);

// Writes the chosen elements, sets `lost` (empty: nobody asks) to the others, and returns the bytes used.
size_t write_sparse(std::span<const float> values, const SparseChoice& choice, std::span<std::byte> wire,
                    std::span<float> lost);
size_t write_all(std::span<const float> values, std::span<std::byte> wire, std::span<float> lost);
// lost = values without the elements of these indices.
void keep_others(std::span<const float> values, std::span<const uint32_t> sent, std::span<float> lost);

// Throw InternalError for bytes that are none of these.
void read_sparse(std::span<const std::byte> wire, std::span<float> values);
void add_sparse(std::span<const std::byte> wire, std::span<float> values);

}  // namespace paceline
