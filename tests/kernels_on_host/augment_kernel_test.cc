// The kernel that makes batches out of a data set on the device, beside its reference: the same bits.
#include <gmock/gmock.h>

#include <vector>

#include "host_device.h"
#include "paceline/core/random.h"
#include "paceline/kernels/augment.h"

namespace paceline {
namespace {

struct Images {
  Images(int64_t channels_, int64_t height_, int64_t width_) : channels(channels_), height(height_), width(width_) {
    const RandomKey random(static_cast<uint64_t>(channels + 10 * height + 1000 * width));
    const int64_t bytes = kSet * channels * height * width;
    for (int64_t i = 0; i < bytes; ++i)
      set.push_back(static_cast<uint8_t>(random.below(static_cast<uint64_t>(i), 256)));
    for (int64_t i = 0; i < kSet; ++i) set_labels.push_back(100 + i);
    for (int64_t i = 0; i < 256 * channels; ++i) tables.push_back(static_cast<float>(i) / 37 - 2);
    for (uint64_t i = 0; i < 4; ++i) {
      const RandomKey own = random.with(i);
      const auto around = [&](uint64_t draw, int64_t size) {
        return static_cast<int16_t>(static_cast<int64_t>(own.below(draw, static_cast<uint64_t>(size))) - size / 2);
      };
      samples.push_back({.index = static_cast<uint32_t>(own.below(0, kSet)),
                         .mirror = static_cast<uint32_t>(i % 2),
                         .shift_down = around(1, 9),
                         .shift_right = around(2, 9),
                         .cut_row = static_cast<int16_t>(own.below(3, static_cast<uint64_t>(height))),
                         .cut_column = static_cast<int16_t>(own.below(4, static_cast<uint64_t>(width)))});
    }
  }

  // In memory that ends where the batch does.
  std::pair<std::vector<std::byte>, std::vector<int64_t>> batch(DeviceNumber type, bool channels_last, bool is_aligned,
                                                                bool on_device) const {
    const size_t number = type == DeviceNumber::f32 ? 4 : 2, offset = is_aligned ? 0 : number;
    const auto count = static_cast<int64_t>(samples.size());
    std::vector<std::byte> images(offset + static_cast<size_t>(count * channels * height * width) * number);
    std::vector<int64_t> labels(static_cast<size_t>(count));
    const AugmentedBatch batch = {.set_images = set.data(),
                                  .set_labels = set_labels.data(),
                                  .tables = tables.data(),
                                  .samples = samples.data(),
                                  .count = count,
                                  .channels = channels,
                                  .height = height,
                                  .width = width,
                                  .cutout = 5,
                                  .images = images.data() + offset,
                                  .labels = labels.data(),
                                  .type = type,
                                  .channels_last = channels_last};
    on_device ? augment_on_device(batch, nullptr) : augment_reference(batch);
    return {images, labels};
  }

  static constexpr int64_t kSet = 6;
  int64_t channels, height, width;
  std::vector<uint8_t> set;
  std::vector<int64_t> set_labels;
  std::vector<float> tables;
  std::vector<AugmentedSample> samples;
};

TEST(AugmentKernel, EqualsItsReference) {
  const int64_t sizes[][2] = {{1, 1}, {5, 7}, {28, 28}, {32, 32}, {40, 36}};  // the last: more than a block's
  for (const int64_t channels : {1, 3, 4}) {
    for (const auto& [height, width] : sizes) {
      const Images images(channels, height, width);
      for (const DeviceNumber type : {DeviceNumber::f32, DeviceNumber::f16, DeviceNumber::bf16}) {
        for (const bool channels_last : {false, true}) {
          for (const bool is_aligned : {false, true}) {
            EXPECT_EQ(images.batch(type, channels_last, is_aligned, true),
                      images.batch(type, channels_last, is_aligned, false))
                << channels << " x " << height << " x " << width << ", type " << static_cast<int>(type) << ", "
                << channels_last << is_aligned;
          }
        }
      }
    }
  }
}

TEST(AugmentKernel, TakesNoSamplesAtAll) {
  Images images(3, 32, 32);
  images.samples.clear();
  EXPECT_TRUE(images.batch(DeviceNumber::f32, true, true, true).second.empty());
}

}  // namespace
}  // namespace paceline
