// For tests: runs of random numbers, the same ones for the same seed.
#pragma once

#include <vector>

#include "paceline/core/random.h"

namespace paceline {

inline std::vector<float> random_numbers(uint64_t seed, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = RandomKey(seed).normal_pair(i)[0];
  return values;
}

inline std::vector<float> random_squares(uint64_t seed, size_t count) {
  std::vector<float> values = random_numbers(seed, count);
  for (float& value : values) value *= value;
  return values;
}

}  // namespace paceline
