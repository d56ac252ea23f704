// TensorView: what groups, collectives and codecs see of a tensor: a flat run of elements that somebody else owns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "paceline/core/check.h"

namespace paceline {

enum class DType : uint8_t { f32, f16, bf16, f64, i32, i64, u8 };
enum class DeviceKind : uint8_t { cpu, cuda };

constexpr size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::u8:
      return 1;
  }
  return 0;
}

constexpr std::string_view name_of(DType dtype) {
  constexpr std::string_view kNames[] = {"f32", "f16", "bf16", "f64", "i32", "i64", "u8"};
  return kNames[static_cast<size_t>(dtype)];
}

// The dtype that a C++ element type is stored as. f16 and bf16 have no C++ type here: they are uint16_t (half.h).
template <class T>
inline constexpr DType kDTypeOf = [] { static_assert(sizeof(T) == 0, "no DType for this element type"); }();
template <>
inline constexpr DType kDTypeOf<float> = DType::f32;
template <>
inline constexpr DType kDTypeOf<double> = DType::f64;
template <>
inline constexpr DType kDTypeOf<int32_t> = DType::i32;
template <>
inline constexpr DType kDTypeOf<int64_t> = DType::i64;
template <>
inline constexpr DType kDTypeOf<uint8_t> = DType::u8;

struct TensorView {
  void* data = nullptr;
  size_t count = 0;
  DType dtype = DType::f32;
  DeviceKind device = DeviceKind::cpu;
  void* stream = nullptr;  // the CUDA stream that orders work on it; null on the CPU

  size_t bytes() const { return count * size_of(dtype); }

  TensorView slice(size_t offset, size_t length) const {
    CHECK_LE(offset, count);
    CHECK_LE(length, count - offset);
    TensorView part = *this;
    part.data = static_cast<std::byte*>(data) + offset * size_of(dtype);
    part.count = length;
    return part;
  }
  TensorView first(size_t length) const { return slice(0, length); }

  template <class T>
  std::span<T> as() const {
    CHECK_EQ(name_of(dtype), name_of(kDTypeOf<T>));
    return {static_cast<T*>(data), count};
  }
};

template <class T>
TensorView view(std::span<T> elements) {
  return {elements.data(), elements.size(), kDTypeOf<T>};
}
template <class T>
TensorView view(std::vector<T>& elements) {
  return view(std::span<T>(elements));
}

// REQUIRES: the same number of bytes on both sides, which do not overlap.
inline void copy_bytes(TensorView to, TensorView from) {
  CHECK_EQ(to.bytes(), from.bytes());
  if (to.bytes() > 0) std::memcpy(to.data, from.data, to.bytes());  // an empty view may point nowhere
}

// Part `index` of `parts` nearly equal ones; the first `count % parts` are one element longer, so chunk 0 is the
// largest.
inline TensorView chunk(TensorView whole, size_t index, size_t parts) {
  CHECK_LT(index, parts);
  const size_t base = whole.count / parts;
  const size_t longer = whole.count - base * parts;
  return whole.slice(index * base + std::min(index, longer), base + (index < longer ? 1 : 0));
}

}  // namespace paceline
