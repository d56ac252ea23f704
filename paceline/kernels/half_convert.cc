// The compiler vectorises bf16, which is shifts and additions. For f16 it knows no conversion instructions without
// intrinsics. These keep a NaN's payload and make it quiet, which core/half.h does not: eight numbers with a NaN among
// them go the slow way.
#include "paceline/kernels/half_convert.h"

#include "paceline/core/half.h"
#include "paceline/kernels/dispatch.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(PACELINE_SANITIZED)
#define PACELINE_F16C
#include <immintrin.h>
#endif

namespace paceline {
namespace {

PACELINE_VECTORISED void f16_from_floats_plain(uint16_t* __restrict halves, const float* __restrict floats,
                                               size_t count) {
  for (size_t i = 0; i < count; ++i) halves[i] = f16_from_float(floats[i]);
}

PACELINE_VECTORISED void floats_from_f16_plain(float* __restrict floats, const uint16_t* __restrict halves,
                                               size_t count) {
  for (size_t i = 0; i < count; ++i) floats[i] = float_from_f16(halves[i]);
}

#ifdef PACELINE_F16C

constexpr size_t kHalvesAtOnce = 8;

__attribute__((target("avx2,f16c"))) void f16_from_floats_f16c(uint16_t* halves, const float* floats, size_t count) {
  size_t i = 0;
  for (; i + kHalvesAtOnce <= count; i += kHalvesAtOnce) {
    const __m256 value = _mm256_loadu_ps(floats + i);
    if (_mm256_movemask_ps(_mm256_cmp_ps(value, value, _CMP_UNORD_Q)) != 0) [[unlikely]] {
      f16_from_floats_reference(halves + i, floats + i, kHalvesAtOnce);
      continue;
    }
    _mm_storeu_si128(reinterpret_cast<__m128i*>(halves + i), _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
  }
  f16_from_floats_reference(halves + i, floats + i, count - i);
}

__attribute__((target("avx2,f16c"))) void floats_from_f16_f16c(float* floats, const uint16_t* halves, size_t count) {
  const __m128i magnitude_bits = _mm_set1_epi16(0x7fff), infinity = _mm_set1_epi16(0x7c00);
  size_t i = 0;
  for (; i + kHalvesAtOnce <= count; i += kHalvesAtOnce) {
    const __m128i value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(halves + i));
    const __m128i is_nan = _mm_cmpgt_epi16(_mm_and_si128(value, magnitude_bits), infinity);
    if (_mm_movemask_epi8(is_nan) != 0) [[unlikely]] {
      floats_from_f16_reference(floats + i, halves + i, kHalvesAtOnce);
      continue;
    }
    _mm256_storeu_ps(floats + i, _mm256_cvtph_ps(value));
  }
  floats_from_f16_reference(floats + i, halves + i, count - i);
}

bool has_f16c() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  return has;
}

#endif

}  // namespace

void f16_from_floats(uint16_t* halves, const float* floats, size_t count) {
#ifdef PACELINE_F16C
  if (has_f16c()) return f16_from_floats_f16c(halves, floats, count);
#endif
  f16_from_floats_plain(halves, floats, count);
}

void floats_from_f16(float* floats, const uint16_t* halves, size_t count) {
#ifdef PACELINE_F16C
  if (has_f16c()) return floats_from_f16_f16c(floats, halves, count);
#endif
  floats_from_f16_plain(floats, halves, count);
}

PACELINE_VECTORISED void bf16_from_floats(uint16_t* __restrict halves, const float* __restrict floats, size_t count) {
  for (size_t i = 0; i < count; ++i) halves[i] = bf16_from_float(floats[i]);
}

PACELINE_VECTORISED void floats_from_bf16(float* __restrict floats, const uint16_t* __restrict halves, size_t count) {
  for (size_t i = 0; i < count; ++i) floats[i] = float_from_bf16(halves[i]);
}

}  // namespace paceline
