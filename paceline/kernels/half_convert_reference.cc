#include "paceline/core/half.h"
#include "paceline/kernels/half_convert.h"

namespace paceline {

void f16_from_floats_reference(uint16_t* halves, const float* floats, size_t count) {
  for (size_t i = 0; i < count; ++i) halves[i] = f16_from_float(floats[i]);
}

void bf16_from_floats_reference(uint16_t* halves, const float* floats, size_t count) {
  for (size_t i = 0; i < count; ++i) halves[i] = bf16_from_float(floats[i]);
}

void floats_from_f16_reference(float* floats, const uint16_t* halves, size_t count) {
  for (size_t i = 0; i < count; ++i) floats[i] = float_from_f16(halves[i]);
}

void floats_from_bf16_reference(float* floats, const uint16_t* halves, size_t count) {
  for (size_t i = 0; i < count; ++i) floats[i] = float_from_bf16(halves[i]);
}

}  // namespace paceline
