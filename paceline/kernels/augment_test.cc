#include "paceline/kernels/augment.h"

#include <gmock/gmock.h>

#include <vector>

#include "paceline/core/half.h"

namespace paceline {
namespace {

using testing::ElementsAre;

// Two images of 2 x 3 pixels, of one channel whose table adds 100, and the output of one of them.
class AugmentReference : public testing::Test {
 protected:
  AugmentReference() {
    for (size_t byte = 0; byte < 256; ++byte) tables.push_back(100 + static_cast<float>(byte));
    for (size_t byte = 0; byte < 256; ++byte) tables.push_back(-static_cast<float>(byte));
  }

  std::vector<float> operator()(const AugmentedSample& sample, int64_t cutout = 0) {
    AugmentedBatch batch = this->batch(&sample, 1);
    batch.cutout = cutout;
    std::vector<float> images(6 * static_cast<size_t>(channels));
    batch.images = images.data();
    augment_reference(batch);
    return images;
  }

  AugmentedBatch batch(const AugmentedSample* samples, int64_t count) {
    return {.set_images = bytes.data(),
            .set_labels = set_labels.data(),
            .tables = tables.data(),
            .samples = samples,
            .count = count,
            .channels = channels,
            .height = 2,
            .width = 3,
            .labels = labels};
  }

  const std::vector<uint8_t> bytes = {1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16};
  const std::vector<int64_t> set_labels = {7, 8};
  std::vector<float> tables;
  int64_t channels = 1;
  int64_t labels[2] = {};
};

TEST_F(AugmentReference, GathersImagesAndLabels) {
  EXPECT_THAT((*this)({.index = 1}), ElementsAre(111, 112, 113, 114, 115, 116));
  EXPECT_EQ(labels[0], 8);
  const AugmentedSample both[] = {{.index = 1}, {.index = 0}};
  std::vector<float> images(12);
  AugmentedBatch batch = this->batch(both, 2);
  batch.images = images.data();
  augment_reference(batch);
  EXPECT_THAT(images, ElementsAre(111, 112, 113, 114, 115, 116, 101, 102, 103, 104, 105, 106));
  EXPECT_THAT(labels, ElementsAre(8, 7));
}

TEST_F(AugmentReference, WhatACropTakesFromOutsideIsBlack) {
  EXPECT_THAT((*this)({.shift_down = 1}), ElementsAre(104, 105, 106, 100, 100, 100));
  EXPECT_THAT((*this)({.shift_down = -1}), ElementsAre(100, 100, 100, 101, 102, 103));
  EXPECT_THAT((*this)({.shift_right = 2}), ElementsAre(103, 100, 100, 106, 100, 100));
  EXPECT_THAT((*this)({.shift_right = -1}), ElementsAre(100, 101, 102, 100, 104, 105));
}

TEST_F(AugmentReference, MirrorsAfterTheCrop) {
  EXPECT_THAT((*this)({.mirror = 1}), ElementsAre(103, 102, 101, 106, 105, 104));
  EXPECT_THAT((*this)({.mirror = 1, .shift_right = 1}), ElementsAre(100, 103, 102, 100, 106, 105));
}

TEST_F(AugmentReference, CutsOutAfterTheMirror) {
  EXPECT_THAT((*this)({.mirror = 1, .cut_row = 0, .cut_column = 2}, 1), ElementsAre(103, 102, 0, 106, 105, 104));
  EXPECT_THAT((*this)({.cut_row = 1, .cut_column = 1}, 2), ElementsAre(0, 0, 103, 0, 0, 106));
  EXPECT_THAT((*this)({.cut_row = 0, .cut_column = 0}, 2), ElementsAre(0, 102, 103, 104, 105, 106));
  EXPECT_THAT((*this)({.shift_down = 1, .cut_row = 1, .cut_column = 0}, 1), ElementsAre(104, 105, 106, 0, 100, 100));
}

TEST_F(AugmentReference, WritesEitherLayoutAndEveryType) {
  channels = 2;  // both images as one
  const AugmentedSample sample;
  EXPECT_THAT((*this)(sample), ElementsAre(101, 102, 103, 104, 105, 106, -11, -12, -13, -14, -15, -16));
  const std::vector<float> last = {101, -11, 102, -12, 103, -13, 104, -14, 105, -15, 106, -16};
  AugmentedBatch batch = this->batch(&sample, 1);
  batch.channels_last = true;
  std::vector<float> floats(12);
  batch.images = floats.data();
  augment_reference(batch);
  EXPECT_EQ(floats, last);
  for (const DeviceNumber type : {DeviceNumber::f16, DeviceNumber::bf16}) {
    std::vector<uint16_t> halves(12);
    batch.type = type;
    batch.images = halves.data();
    augment_reference(batch);
    for (size_t i = 0; i < last.size(); ++i)
      EXPECT_EQ(halves[i], type == DeviceNumber::f16 ? f16_from_float(last[i]) : bf16_from_float(last[i]));
  }
}

}  // namespace
}  // namespace paceline
