#include "paceline/core/half.h"
#include "paceline/kernels/reduce.h"

namespace paceline {
namespace {

template <class T>
T combine(T a, T b, ReduceOp op) {
  if (op == ReduceOp::max) return std::max(a, b);
  if (op == ReduceOp::min) return std::min(a, b);
  return a + b;
}

template <class Stored, class T>
void reduce(std::span<const TensorView> parts, std::span<const TensorView> results, ReduceOp op, T (*load)(Stored),
            Stored (*store)(T)) {
  for (size_t i = 0; i < parts[0].count; ++i) {
    T value = load(static_cast<const Stored*>(parts[0].data)[i]);
    for (const TensorView& part : parts.subspan(1))
      value = combine(value, load(static_cast<const Stored*>(part.data)[i]), op);
    for (const TensorView& result : results) static_cast<Stored*>(result.data)[i] = store(value);
  }
}

template <class T>
T same(T value) {
  return value;
}

}  // namespace

void reduce_many_reference(std::span<const TensorView> parts, std::span<const TensorView> results, ReduceOp op) {
  switch (parts[0].dtype) {
    case DType::f32:
      return reduce<float, float>(parts, results, op, same, same);
    case DType::f64:
      return reduce<double, double>(parts, results, op, same, same);
    case DType::i32:
      return reduce<int32_t, int32_t>(parts, results, op, same, same);
    case DType::i64:
      return reduce<int64_t, int64_t>(parts, results, op, same, same);
    case DType::f16:
      return reduce<uint16_t, float>(parts, results, op, float_from_f16, f16_from_float);
    case DType::bf16:
      return reduce<uint16_t, float>(parts, results, op, float_from_bf16, bf16_from_float);
    case DType::u8:
      break;
  }
  CHECK_TRUE(false, "cannot reduce {}", name_of(parts[0].dtype));
}

}  // namespace paceline
