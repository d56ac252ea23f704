#include "paceline/core/half.h"
#include "paceline/kernels/augment.h"

namespace paceline {
namespace {

void store(const AugmentedBatch& batch, int64_t at, float value) {
  switch (batch.type) {
    case DeviceNumber::f32:
      static_cast<float*>(batch.images)[at] = value;
      return;
    case DeviceNumber::f16:
      static_cast<uint16_t*>(batch.images)[at] = f16_from_float(value);
      return;
    case DeviceNumber::bf16:
      static_cast<uint16_t*>(batch.images)[at] = bf16_from_float(value);
      return;
  }
}

float pixel(const AugmentedBatch& batch, const AugmentedSample& sample, int64_t channel, int64_t y, int64_t x) {
  const int64_t top = sample.cut_row - batch.cutout / 2, left = sample.cut_column - batch.cutout / 2;
  if (y >= top && y < top + batch.cutout && x >= left && x < left + batch.cutout) return 0;
  const float* const table = batch.tables + 256 * channel;
  const int64_t from_y = y + sample.shift_down;
  const int64_t from_x = (sample.mirror != 0 ? batch.width - 1 - x : x) + sample.shift_right;
  if (from_y < 0 || from_y >= batch.height || from_x < 0 || from_x >= batch.width) return table[0];
  const int64_t plane = sample.index * batch.channels + channel;
  return table[batch.set_images[(plane * batch.height + from_y) * batch.width + from_x]];
}

}  // namespace

void augment_reference(const AugmentedBatch& batch) {
  for (int64_t i = 0; i < batch.count; ++i) {
    const AugmentedSample& sample = batch.samples[i];
    batch.labels[i] = batch.set_labels[sample.index];
    for (int64_t channel = 0; channel < batch.channels; ++channel) {
      for (int64_t y = 0; y < batch.height; ++y) {
        for (int64_t x = 0; x < batch.width; ++x) {
          const int64_t at = batch.channels_last
                                 ? ((i * batch.height + y) * batch.width + x) * batch.channels + channel
                                 : ((i * batch.channels + channel) * batch.height + y) * batch.width + x;
          store(batch, at, pixel(batch, sample, channel, y, x));
        }
      }
    }
  }
}

}  // namespace paceline
