#include "paceline/data/transforms.h"

#include <algorithm>

#include "paceline/core/check.h"

namespace paceline {
namespace {

// The index of each draw under the sample's key. Fixed: one option changes no other's draws.
enum Draw : uint64_t { kShiftDown, kShiftRight, kMirror, kCutRow, kCutColumn };

}  // namespace

Transform::Transform(ImageShape shape, const Normalisation& normalisation, Augmentation augmentation)
    : shape_(shape), augmentation_(augmentation) {
  CHECK_GT(std::min({shape.channels, shape.height, shape.width}), 0);
  const size_t channels = static_cast<size_t>(shape.channels);
  CHECK_EQ(normalisation.mean.size(), channels);
  CHECK_EQ(normalisation.deviation.size(), channels);

  const int64_t side = std::min(shape.height, shape.width);
  if (augmentation.crop_padding < 0 || augmentation.crop_padding >= side) {
    throw RecipeError(fmt::format("crop padding {} does not fit images of {}x{} pixels: expected 0 to {}",
                                  augmentation.crop_padding, shape.height, shape.width, side - 1));
  }
  if (augmentation.cutout < 0 || augmentation.cutout > side) {
    throw RecipeError(fmt::format("a cut-out of side {} does not fit images of {}x{} pixels: expected 0 to {}",
                                  augmentation.cutout, shape.height, shape.width, side));
  }

  tables_.resize(channels);
  for (size_t channel = 0; channel < channels; ++channel) {
    CHECK_GT(normalisation.deviation[channel], 0.0f);
    for (size_t byte = 0; byte < 256; ++byte) {
      tables_[channel][byte] =
          (static_cast<float>(byte) / 255.0f - normalisation.mean[channel]) / normalisation.deviation[channel];
    }
  }
}

AugmentationDraw Transform::draw(RandomKey sample_key) const {
  AugmentationDraw draw;
  if (const int64_t padding = augmentation_.crop_padding; padding > 0) {
    const uint64_t places = 2 * static_cast<uint64_t>(padding) + 1;
    draw.shift_down = static_cast<int64_t>(sample_key.below(kShiftDown, places)) - padding;
    draw.shift_right = static_cast<int64_t>(sample_key.below(kShiftRight, places)) - padding;
  }
  if (augmentation_.flip) draw.mirror = sample_key.below(kMirror, 2) == 1;
  if (augmentation_.cutout > 0) {
    draw.cut_row = static_cast<int64_t>(sample_key.below(kCutRow, static_cast<uint64_t>(shape_.height)));
    draw.cut_column = static_cast<int64_t>(sample_key.below(kCutColumn, static_cast<uint64_t>(shape_.width)));
  }
  return draw;
}

void Transform::operator()(std::span<const uint8_t> image, RandomKey sample_key, float* out) const {
  CHECK_EQ(image.size(), shape_.elements());
  if (augmentation_.any()) {
    augmented(image.data(), draw(sample_key), out);
  } else {
    plain(image.data(), out);
  }
}

void Transform::plain(const uint8_t* image, float* out) const {
  const int64_t pixels = shape_.height * shape_.width;
  for (const ByteToFloat& table : tables_) {
    for (int64_t i = 0; i < pixels; ++i) out[i] = table[image[i]];
    image += pixels;
    out += pixels;
  }
}

void Transform::augmented(const uint8_t* image, const AugmentationDraw& draw, float* out) const {
  const int64_t height = shape_.height, width = shape_.width;
  // The columns of the cropped image that come from the image; left and right of them is padding.
  const int64_t first = std::max<int64_t>(0, -draw.shift_right);
  const int64_t last = std::min(width, width - draw.shift_right);
  const int64_t cut_top = std::max<int64_t>(0, draw.cut_row - augmentation_.cutout / 2);
  const int64_t cut_left = std::max<int64_t>(0, draw.cut_column - augmentation_.cutout / 2);
  const int64_t cut_bottom = std::min(height, draw.cut_row - augmentation_.cutout / 2 + augmentation_.cutout);
  const int64_t cut_right = std::min(width, draw.cut_column - augmentation_.cutout / 2 + augmentation_.cutout);

  for (const ByteToFloat& table : tables_) {
    for (int64_t y = 0; y < height; ++y) {
      float* row = out + y * width;
      const int64_t source_y = y + draw.shift_down;
      if (source_y < 0 || source_y >= height) {
        std::fill_n(row, width, table[0]);
        continue;
      }
      const uint8_t* source = image + source_y * width;
      if (draw.mirror) {
        std::fill_n(row, width - last, table[0]);
        for (int64_t x = first; x < last; ++x) row[width - 1 - x] = table[source[x + draw.shift_right]];
        std::fill_n(row + width - first, first, table[0]);
      } else {
        std::fill_n(row, first, table[0]);
        for (int64_t x = first; x < last; ++x) row[x] = table[source[x + draw.shift_right]];
        std::fill_n(row + last, width - last, table[0]);
      }
    }
    for (int64_t y = cut_top; y < cut_bottom; ++y) std::fill_n(out + y * width + cut_left, cut_right - cut_left, 0.0f);
    image += height * width;
    out += height * width;
  }
}

}  // namespace paceline
