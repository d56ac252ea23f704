// The magnitude of a float as an integer: in the same order as the numbers, with NaN above infinity. Integers can be
// compared, counted and have their maximum taken by vector code that gives the same on every instruction set.
#pragma once

#include <bit>
#include <cstdint>

namespace paceline {

constexpr int32_t kMagnitudeOfInfinity = 0x7f800000;

constexpr int32_t magnitude_of(float value) { return std::bit_cast<int32_t>(value) & 0x7fffffff; }
constexpr float with_magnitude(int32_t magnitude) { return std::bit_cast<float>(magnitude); }

}  // namespace paceline
