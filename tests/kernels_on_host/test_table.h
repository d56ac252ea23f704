// For tests of kernels that update all parameters at once: tensors of any size, place and type, and the table that the
// kernels read.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "paceline/core/half.h"
#include "paceline/kernels/on_device.h"
#include "paceline/kernels/test_numbers.h"

namespace paceline {

struct TensorShape {
  size_t count;
  size_t offset = 0;  // numbers between the beginning of the memory and the tensor
  DeviceNumber gradients = DeviceNumber::f32;
  bool has_copy = false;  // of the weights, in halves
  bool decayed = true;
  bool has_gradient = true;
};

// Numbers that begin `offset` of them into their memory, whose end is the memory's: the sanitizer sees what goes past.
template <class T>
struct Placed {
  Placed(const std::vector<T>& values, size_t offset_) : memory(offset_ + values.size()), offset(offset_) {
    std::copy(values.begin(), values.end(), data());
  }
  T* data() { return memory.data() + offset; }
  std::vector<T> values() const { return {memory.begin() + static_cast<ptrdiff_t>(offset), memory.end()}; }

  std::vector<T> memory;
  size_t offset;
};

inline uint16_t half_of(float value, DeviceNumber type) {
  return type == DeviceNumber::f16 ? f16_from_float(value) : bf16_from_float(value);
}
inline float float_of(uint16_t half, DeviceNumber type) {
  return type == DeviceNumber::f16 ? float_from_f16(half) : float_from_bf16(half);
}

struct TestTensor {
  TestTensor(const TensorShape& shape_, uint64_t seed)
      : shape(shape_),
        weights(random_numbers(seed, shape.count), shape.offset),
        first(random_squares(seed + 1, shape.count), shape.offset),
        second(random_squares(seed + 2, shape.count), shape.offset),
        copy(std::vector<uint16_t>(shape.has_copy ? shape.count : 0), shape.offset) {
    set_gradient(seed + 3);
  }

  void set_gradient(uint64_t seed) {
    gradient = random_numbers(seed, shape.count);
    halves.clear();
    if (shape.gradients != DeviceNumber::f32) {
      for (float& value : gradient) {
        halves.push_back(half_of(value, shape.gradients));
        value = float_of(halves.back(), shape.gradients);
      }
    }
    placed_gradient = Placed<float>(halves.empty() ? gradient : std::vector<float>(), shape.offset);
    placed_halves = Placed<uint16_t>(halves, shape.offset);
  }

  DeviceTensor on_device() {
    DeviceTensor tensor = {.weights = weights.data(),
                           .gradient = placed_gradient.data(),
                           .states = {first.data(), second.data()},
                           .half_weights = shape.has_copy ? copy.data() : nullptr,
                           .count = static_cast<int64_t>(shape.count),
                           .gradient_type = shape.gradients,
                           .half_type = DeviceNumber::bf16,
                           .decayed = shape.decayed};
    if (shape.gradients != DeviceNumber::f32) tensor.gradient = placed_halves.data();
    if (!shape.has_gradient) tensor.gradient = nullptr;
    tensor.aligned = is_aligned(tensor);
    return tensor;
  }

  TensorShape shape;
  Placed<float> weights, first, second;
  Placed<uint16_t> copy;
  std::vector<float> gradient;  // as the reference takes it
  std::vector<uint16_t> halves;
  Placed<float> placed_gradient{{}, 0};
  Placed<uint16_t> placed_halves{{}, 0};
};

// All parameters and the table that kernels read.
struct TestTable {
  explicit TestTable(const std::vector<TensorShape>& shapes) {
    uint64_t seed = 100;
    for (const TensorShape& shape : shapes) tensors.emplace_back(shape, seed += 10);
  }

  DeviceTable on_device() {
    std::vector<DeviceTensor> described;
    chunks.clear();
    for (TestTensor& tensor : tensors) {
      DeviceTensor one = tensor.on_device();
      one.first_chunk = static_cast<uint32_t>(chunks.size());
      const size_t count = (tensor.shape.count + kDeviceChunkElements - 1) / kDeviceChunkElements;
      for (size_t i = 0; i < count; ++i) {
        chunks.push_back({static_cast<uint32_t>(described.size()), static_cast<uint32_t>(i)});
      }
      described.push_back(one);
    }
    device_tensors.assign(described.size(), {});
    const DeviceTable table = {.tensors = device_tensors.data(),
                               .chunks = chunks.data(),
                               .coefficients = coefficients,
                               .tensor_count = static_cast<uint32_t>(described.size()),
                               .chunk_count = static_cast<uint32_t>(chunks.size()),
                               .found_inf = &found_inf,
                               .inverse_scale = &inverse_scale,
                               .stream = nullptr};
    write_tensors(table, described);
    return table;
  }

  std::deque<TestTensor> tensors;
  std::vector<DeviceTensor> device_tensors;
  std::vector<DeviceChunk> chunks;
  alignas(16) std::byte coefficients[kDeviceCoefficientBytes] = {};
  float found_inf = 0, inverse_scale = 0.25f;
  int64_t steps = 0;
  double last_rate = 0;
  std::vector<double> sums;  // LARS's
  std::vector<float> rates;
};

}  // namespace paceline
