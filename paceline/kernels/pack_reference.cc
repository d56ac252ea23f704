#include <cmath>
#include <limits>
#include <vector>

#include "paceline/kernels/pack.h"

namespace paceline {
namespace {

// Calls body(index of the block, its first element, its end).
template <class Body>
void for_blocks(size_t count, size_t block, const Body& body) {
  for (size_t begin = 0; begin < count; begin += block) body(begin / block, begin, std::min(count, begin + block));
}

}  // namespace

void pack_int8_reference(const float* values, size_t count, size_t block, float* scales, int8_t* packed, float* lost) {
  for_blocks(count, block, [&](size_t index, size_t begin, size_t end) {
    float most = 0;
    bool finite = true;
    for (size_t i = begin; i < end; ++i) {
      most = std::max(most, std::fabs(values[i]));
      finite = finite && std::isfinite(values[i]);
    }
    const bool packs = finite && most >= 0x1p-119f;
    scales[index] = !finite ? std::numeric_limits<float>::quiet_NaN() : packs ? most / 127 : 0;
    for (size_t i = begin; i < end; ++i) {
      packed[i] = packs ? static_cast<int8_t>(std::nearbyint(values[i] * (127 / most))) : int8_t{0};
      if (lost != nullptr) lost[i] = finite ? values[i] - static_cast<float>(packed[i]) * scales[index] : 0;
    }
  });
}

void unpack_int8_reference(const float* scales, const int8_t* packed, size_t count, size_t block, float* values) {
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(packed[i]) * scales[i / block];
}

void pack_signs_reference(const float* values, size_t count, size_t block, SignScales* scales, uint8_t* signs,
                          float* lost) {
  for_blocks(count, block, [&](size_t index, size_t begin, size_t end) {
    uint8_t* const own = signs + index * bytes_of_signs(block);
    std::fill(own, own + bytes_of_signs(end - begin), uint8_t{0});
    float positive_sum = 0, other_sum = 0;
    int positives = 0, others = 0;
    for (size_t lane = 0; lane < 16; ++lane) {
      float positive = 0, other = 0;
      for (size_t i = begin + lane; i < end; i += 16) (values[i] > 0 ? positive : other) += values[i];
      positive_sum += positive;
      other_sum += other;
    }
    for (size_t i = begin; i < end; ++i) {
      (values[i] > 0 ? positives : others) += 1;
      if (values[i] > 0) own[(i - begin) / 8] |= static_cast<uint8_t>(1 << ((i - begin) % 8));
    }
    SignScales& mean = scales[index];
    mean.positive = positives > 0 ? positive_sum / static_cast<float>(positives) : 0;
    mean.other = others > 0 ? other_sum / static_cast<float>(others) : 0;
    const bool finite = std::isfinite(mean.positive) && std::isfinite(mean.other);
    for (size_t i = begin; i < end && lost != nullptr; ++i)
      lost[i] = finite ? values[i] - (values[i] > 0 ? mean.positive : mean.other) : 0;
  });
}

void unpack_signs_reference(const SignScales* scales, const uint8_t* signs, size_t count, size_t block, float* values) {
  for_blocks(count, block, [&](size_t index, size_t begin, size_t end) {
    const uint8_t* const own = signs + index * bytes_of_signs(block);
    for (size_t i = begin; i < end; ++i) {
      const bool above_zero = (own[(i - begin) / 8] >> ((i - begin) % 8) & 1) != 0;
      values[i] = above_zero ? scales[index].positive : scales[index].other;
    }
  });
}

}  // namespace paceline
