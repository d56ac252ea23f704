#include "paceline/kernels/reduce.h"

#include <algorithm>

#include "paceline/kernels/dispatch.h"
#include "paceline/kernels/half_convert.h"

namespace paceline {
namespace {

// Elements that are reduced at a time: the accumulator and a block of one part stay in the first-level cache.
constexpr size_t kBlock = 2048;

// out[i] = a[i] op b[i]; `out` may be a or b itself, which ivdep lets the vectoriser ignore.
template <class T>
using Combine = void (*)(T* out, const T* a, const T* b, size_t count);
// The same, and `other` gets it too: what two ranks do to their two buffers.
template <class T>
using CombineTwice = void (*)(T* out, T* other, const T* a, const T* b, size_t count);

template <class T>
struct Loops {
  Combine<T> combine;
  CombineTwice<T> combine_twice;
};
template <class T>
Loops(Combine<T>, CombineTwice<T>) -> Loops<T>;  // clang 14 deduces nothing for aggregates by itself

#define PACELINE_COMBINE(name, T, expression)                                                     \
  PACELINE_VECTORISED void name(T* out, const T* a, const T* b, size_t count) {                   \
    _Pragma("GCC ivdep") for (size_t i = 0; i < count; ++i) out[i] = (expression);                \
  }                                                                                               \
  PACELINE_VECTORISED void name##_twice(T* out, T* other, const T* a, const T* b, size_t count) { \
    _Pragma("GCC ivdep") for (size_t i = 0; i < count; ++i) {                                     \
      const T value = (expression);                                                               \
      out[i] = value;                                                                             \
      other[i] = value;                                                                           \
    }                                                                                             \
  }
#define PACELINE_COMBINE_TYPE(suffix, T, sum)                  \
  PACELINE_COMBINE(sum_##suffix, T, sum)                       \
  PACELINE_COMBINE(max_##suffix, T, a[i] < b[i] ? b[i] : a[i]) \
  PACELINE_COMBINE(min_##suffix, T, b[i] < a[i] ? b[i] : a[i])

PACELINE_COMBINE_TYPE(f32, float, a[i] + b[i])
PACELINE_COMBINE_TYPE(f64, double, a[i] + b[i])
PACELINE_COMBINE_TYPE(i32, int32_t, static_cast<int32_t>(static_cast<uint32_t>(a[i]) + static_cast<uint32_t>(b[i])))
PACELINE_COMBINE_TYPE(i64, int64_t, static_cast<int64_t>(static_cast<uint64_t>(a[i]) + static_cast<uint64_t>(b[i])))

#define PACELINE_LOOPS(op, suffix)                                     \
  ((op) == ReduceOp::sum   ? Loops{sum_##suffix, sum_##suffix##_twice} \
   : (op) == ReduceOp::max ? Loops{max_##suffix, max_##suffix##_twice} \
                           : Loops{min_##suffix, min_##suffix##_twice})

void copy_block(const TensorView& result, size_t at, const void* block, size_t bytes) {
  void* to = static_cast<std::byte*>(result.data) + at * size_of(result.dtype);
  if (to != block) std::memcpy(to, block, bytes);
}

template <class T>
void reduce_blocks(std::span<const TensorView> parts, std::span<const TensorView> results, Loops<T> loops) {
  const auto data = [](const TensorView& view) { return static_cast<T*>(view.data); };
  if (parts.size() == 2 && results.size() == 2)
    return loops.combine_twice(data(results[0]), data(results[1]), data(parts[0]), data(parts[1]), parts[0].count);
  const Combine<T> combine = loops.combine;
  auto part = [&](size_t index, size_t at) { return static_cast<const T*>(parts[index].data) + at; };
  alignas(64) T accumulator[kBlock];
  const size_t count = parts[0].count;
  for (size_t at = 0; at < count; at += kBlock) {
    const size_t block = std::min(kBlock, count - at);
    // Two parts need no room of their own: the sum goes where it belongs, and is copied while it is in the cache.
    T* const sum = parts.size() == 2 ? static_cast<T*>(results[0].data) + at : accumulator;
    if (parts.size() == 1) {
      std::memcpy(sum, part(0, at), block * sizeof(T));
    } else {
      combine(sum, part(0, at), part(1, at), block);
      for (size_t next = 2; next < parts.size(); ++next) combine(sum, sum, part(next, at), block);
    }
    for (const TensorView& result : results) copy_block(result, at, sum, block * sizeof(T));
  }
}

void reduce_half_blocks(std::span<const TensorView> parts, std::span<const TensorView> results, Combine<float> combine,
                        void (*widen)(float*, const uint16_t*, size_t),
                        void (*narrow)(uint16_t*, const float*, size_t)) {
  alignas(64) float accumulator[kBlock];
  alignas(64) float addend[kBlock];
  const size_t count = parts[0].count;
  for (size_t at = 0; at < count; at += kBlock) {
    const size_t block = std::min(kBlock, count - at);
    widen(accumulator, static_cast<const uint16_t*>(parts[0].data) + at, block);
    for (const TensorView& part : parts.subspan(1)) {
      widen(addend, static_cast<const uint16_t*>(part.data) + at, block);
      combine(accumulator, accumulator, addend, block);
    }
    auto* const rounded = static_cast<uint16_t*>(results[0].data) + at;
    narrow(rounded, accumulator, block);
    for (const TensorView& result : results) copy_block(result, at, rounded, block * sizeof(uint16_t));
  }
}

}  // namespace

void reduce_many(std::span<const TensorView> parts, std::span<const TensorView> results, ReduceOp op) {
  CHECK_TRUE(!parts.empty() && !results.empty(), "nothing to reduce");
  for (const TensorView& view : parts)
    CHECK_TRUE(view.count == parts[0].count && view.dtype == parts[0].dtype, "unequal");
  for (const TensorView& view : results)
    CHECK_TRUE(view.count == parts[0].count && view.dtype == parts[0].dtype, "unequal");
  const auto f32 = PACELINE_LOOPS(op, f32);
  switch (parts[0].dtype) {
    case DType::f32:
      return reduce_blocks<float>(parts, results, f32);
    case DType::f64:
      return reduce_blocks<double>(parts, results, PACELINE_LOOPS(op, f64));
    case DType::i32:
      return reduce_blocks<int32_t>(parts, results, PACELINE_LOOPS(op, i32));
    case DType::i64:
      return reduce_blocks<int64_t>(parts, results, PACELINE_LOOPS(op, i64));
    case DType::f16:
      return reduce_half_blocks(parts, results, f32.combine, floats_from_f16, f16_from_floats);
    case DType::bf16:
      return reduce_half_blocks(parts, results, f32.combine, floats_from_bf16, bf16_from_floats);
    case DType::u8:
      break;
  }
  CHECK_TRUE(false, "cannot reduce {}", name_of(parts[0].dtype));
}

void reduce_into(TensorView into, TensorView from, ReduceOp op) {
  const TensorView parts[] = {into, from};
  reduce_many(parts, std::span(parts).first(1), op);
}

}  // namespace paceline
