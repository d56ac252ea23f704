// base^exponent by squaring and multiplying: the same bits on a CPU and on a device, which std::pow does not promise.
// Off by about `exponent` units in the last place, where base^exponent still counts beside 1: nothing.
#pragma once

#include <cstdint>

namespace paceline {

constexpr double whole_power(double base, int64_t exponent) {
  double result = 1;
  for (double square = base; exponent > 0; exponent /= 2, square *= square) {
    if (exponent % 2 == 1) result *= square;
  }
  return result;
}

}  // namespace paceline
