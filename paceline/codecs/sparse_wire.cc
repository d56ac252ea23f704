#include "paceline/codecs/sparse_wire.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "paceline/core/check.h"
#include "paceline/kernels/reduce.h"
#include "paceline/kernels/select.h"

namespace paceline {
namespace {

constexpr uint32_t kEveryElement = std::numeric_limits<uint32_t>::max();

struct Reading {
  bool every_element;
  std::span<const uint32_t> indices;
  std::span<const float> values;
};

Reading parse(std::span<const std::byte> wire, size_t count) {
  CHECK_GE(wire.size(), sizeof(uint32_t));
  uint32_t entries;
  std::memcpy(&entries, wire.data(), sizeof(entries));
  const auto* const body = wire.data() + sizeof(entries);
  if (entries == kEveryElement) {
    CHECK_EQ(wire.size(), sizeof(entries) + count * sizeof(float));
    return {true, {}, {reinterpret_cast<const float*>(body), count}};
  }
  CHECK_EQ(wire.size(), sizeof(entries) + entries * (sizeof(uint32_t) + sizeof(float)));
  const std::span indices(reinterpret_cast<const uint32_t*>(body), entries);
  uint32_t most = 0;
  for (const uint32_t index : indices) most = std::max(most, index);
  CHECK_TRUE(entries == 0 || most < count, "index {} in a sparse array of {}", most, count);
  return {false, indices, {reinterpret_cast<const float*>(body + indices.size_bytes()), entries}};
}

}  // namespace

SparseEntries begin_sparse(std::span<std::byte> wire, size_t entries, size_t count) {
  CHECK_LT(count, kEveryElement);  // indices have 32 bits
  const auto number = static_cast<uint32_t>(entries);
  std::memcpy(wire.data(), &number, sizeof(number));
  std::byte* const indices = wire.data() + sizeof(number);
  return {reinterpret_cast<uint32_t*>(indices), reinterpret_cast<float*>(indices + entries * sizeof(uint32_t))};
}

size_t write_sparse(std::span<const float> values, const SparseChoice& choice, std::span<std::byte> wire,
                    std::span<float> lost) {
  if (!goes_with_indices(choice.entries, values.size())) return write_all(values, wire, lost);
  const SparseEntries entries = begin_sparse(wire, choice.entries, values.size());
  const size_t taken = select_largest(values.data(), values.size(), choice.magnitude, choice.equal, choice.entries,
                                      entries.indices, entries.values);
  CHECK_EQ(taken, choice.entries);
  keep_others(values, {entries.indices, choice.entries}, lost);
  return sparse_bytes(choice.entries, values.size());
}

size_t write_all(std::span<const float> values, std::span<std::byte> wire, std::span<float> lost) {
  std::memcpy(wire.data(), &kEveryElement, sizeof(kEveryElement));
  if (!values.empty()) std::memcpy(wire.data() + sizeof(kEveryElement), values.data(), values.size_bytes());
  std::ranges::fill(lost, 0.0f);
  return sizeof(kEveryElement) + values.size_bytes();
}

void keep_others(std::span<const float> values, std::span<const uint32_t> sent, std::span<float> lost) {
  if (lost.empty()) return;
  if (lost.data() != values.data()) std::memcpy(lost.data(), values.data(), values.size_bytes());
  for (const uint32_t index : sent) lost[index] = 0;
}

void read_sparse(std::span<const std::byte> wire, std::span<float> values) {
  const Reading reading = parse(wire, values.size());
  if (reading.every_element) {
    std::ranges::copy(reading.values, values.begin());
    return;
  }
  std::ranges::fill(values, 0.0f);
  for (size_t entry = 0; entry < reading.indices.size(); ++entry)
    values[reading.indices[entry]] = reading.values[entry];
}

void add_sparse(std::span<const std::byte> wire, std::span<float> values) {
  const Reading reading = parse(wire, values.size());
  if (reading.every_element) {
    const TensorView from = {const_cast<float*>(reading.values.data()), values.size(), DType::f32};
    return reduce_into(view(values), from, ReduceOp::sum);
  }
  for (size_t entry = 0; entry < reading.indices.size(); ++entry)
    values[reading.indices[entry]] += reading.values[entry];
}

}  // namespace paceline
