// Arrays of halves (f16, bf16) made of floats, and back: to nearest, ties to even, the same bits as core/half.h for
// every input, NaNs and subnormals included. Bound by memory where the processor has conversions of its own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline {

void f16_from_floats(uint16_t* halves, const float* floats, size_t count);
void bf16_from_floats(uint16_t* halves, const float* floats, size_t count);
void floats_from_f16(float* floats, const uint16_t* halves, size_t count);
void floats_from_bf16(float* floats, const uint16_t* halves, size_t count);

// The definition of right, for tests.
void f16_from_floats_reference(uint16_t* halves, const float* floats, size_t count);
void bf16_from_floats_reference(uint16_t* halves, const float* floats, size_t count);
void floats_from_f16_reference(float* floats, const uint16_t* halves, size_t count);
void floats_from_bf16_reference(float* floats, const uint16_t* halves, size_t count);

}  // namespace paceline
