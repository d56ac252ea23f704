// Buffers added (or their maxima or minima taken) element by element. Bound by memory: one pass over every buffer.
#pragma once

#include <cstdint>
#include <span>

#include "paceline/core/tensor_view.h"

namespace paceline {

enum class ReduceOp : uint8_t { sum, max, min };

// into[i] = into[i] op from[i]. f16 and bf16 are taken as f32 and rounded back; integers wrap around.
// REQUIRES: equal counts and types; f32, f64, f16, bf16, i32 or i64.
void reduce_into(TensorView into, TensorView from, ReduceOp op);

// Every result becomes parts[0] op parts[1] op ..., in this order. Results may be the same buffers as parts, element
// for element. f16 and bf16 are accumulated in f32 and rounded once.
void reduce_many(std::span<const TensorView> parts, std::span<const TensorView> results, ReduceOp op);

// The definition of right, for tests.
void reduce_many_reference(std::span<const TensorView> parts, std::span<const TensorView> results, ReduceOp op);

}  // namespace paceline
