// From images as bytes to the batch a model sees, all in one pass: gathered, cropped, mirrored, cut out, normalised.
//
//   y, x              of the output; u = W-1-x where the sample is mirrored, else x
//   inside            0 <= y + shift_down < H and 0 <= u + shift_right < W
//   cut               cut_row - cutout/2 <= y < cut_row - cutout/2 + cutout, and x likewise
//   out[c][y][x]    = cut ? 0 : table[c][inside ? image[c][y + shift_down][u + shift_right] : 0]
//
// rounded to the nearest number of the output's type. In f32 these are the bits of data/transforms.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "paceline/kernels/on_device.h"

namespace paceline {

// Which image, and where its draws fell. 16 bytes: they travel to the device in every step.
struct AugmentedSample {
  uint32_t index = 0;  // in the set
  uint32_t mirror = 0;
  int16_t shift_down = 0, shift_right = 0;
  int16_t cut_row = 0, cut_column = 0;
};
static_assert(sizeof(AugmentedSample) == 16);

constexpr int64_t kLargestAugmentedSide = 32767;  // pixels: int16_t

// All pointers are of one device.
struct AugmentedBatch {
  const uint8_t* set_images = nullptr;  // image after image, each channel by channel
  const int64_t* set_labels = nullptr;
  const float* tables = nullptr;             // 256 numbers per channel
  const AugmentedSample* samples = nullptr;  // 16-byte aligned
  int64_t count = 0;
  int64_t channels = 0, height = 0, width = 0;
  int64_t cutout = 0;      // side of the square; 0: none
  void* images = nullptr;  // the output: count x CHW, or count x HWC
  int64_t* labels = nullptr;
  DeviceNumber type = DeviceNumber::f32;
  bool channels_last = false;
};

void augment_reference(const AugmentedBatch& batch);

// Does not wait. Throws InternalError where CUDA refuses.
void augment_on_device(const AugmentedBatch& batch, DeviceStream stream);

}  // namespace paceline
