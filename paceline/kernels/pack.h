// Floats in few bits: int8 with a scale for each block, and signs with two. Each block is read twice, the second time
// from the cache. The last block may be shorter.
//
// `lost` may be null, or `values` itself: lost[i] = values[i] - what unpacking gives. Blocks that hold anything which
// is not finite unpack to something that is not; nothing of them is kept (lost is 0), so that one bad step does not
// spoil all later ones.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline {

// scale = max|x| / 127; packed = x / scale, to nearest, ties to even. A block that is all zero, or too small for a
// scale (below 2^-119), has scale 0; one with a NaN or an infinity has scale NaN.
void pack_int8(const float* values, size_t count, size_t block, float* scales, int8_t* packed, float* lost);
void unpack_int8(const float* scales, const int8_t* packed, size_t count, size_t block, float* values);
void unpack_int8_add(const float* scales, const int8_t* packed, size_t count, size_t block, float* values);

// What the elements of a block stand for.
struct SignScales {
  float positive;  // the mean of those above zero
  float other;     // the mean of the others
};
constexpr size_t bytes_of_signs(size_t block) { return (block + 7) / 8; }

// Element i of a block is bit i%8 of its byte i/8, set where it is above zero; each block begins with a new byte.
void pack_signs(const float* values, size_t count, size_t block, SignScales* scales, uint8_t* signs, float* lost);
void unpack_signs(const SignScales* scales, const uint8_t* signs, size_t count, size_t block, float* values);
void unpack_signs_add(const SignScales* scales, const uint8_t* signs, size_t count, size_t block, float* values);

// The definition of right, for tests. Sums of signs are added up in the same order.
void pack_int8_reference(const float* values, size_t count, size_t block, float* scales, int8_t* packed, float* lost);
void unpack_int8_reference(const float* scales, const int8_t* packed, size_t count, size_t block, float* values);
void pack_signs_reference(const float* values, size_t count, size_t block, SignScales* scales, uint8_t* signs,
                          float* lost);
void unpack_signs_reference(const SignScales* scales, const uint8_t* signs, size_t count, size_t block, float* values);

}  // namespace paceline
