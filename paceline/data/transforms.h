// From the bytes of an image to the floats a model sees: normalised, and in training cropped, flipped and cut out.
//
// Every draw comes from (seed, epoch, sample): the same sample gets the same pixels whichever rank or thread prepares
// it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "paceline/core/random.h"
#include "paceline/data/dataset.h"

namespace paceline {

struct Augmentation {
  int64_t crop_padding = 0;  // pad each side with so many black pixels, crop back to the size at a random place
  bool flip = false;         // mirror left and right, with probability 1/2
  int64_t cutout = 0;  // a square of this side, its centre anywhere in the image, becomes the mean (0); after the flip

  bool any() const { return crop_padding > 0 || flip || cutout > 0; }
};

// Where the draws of one sample fell.
struct AugmentationDraw {
  int64_t shift_down = 0, shift_right = 0;  // output pixel (y, x) is input pixel (y + shift_down, x + shift_right)
  bool mirror = false;
  int64_t cut_row = 0, cut_column = 0;  // the centre of the cut-out square
};

// Thread-safe and without allocation once constructed.
class Transform {
 public:
  // Throws RecipeError when the augmentation does not fit the shape. REQUIRES: a mean and a deviation > 0 per channel.
  Transform(ImageShape shape, const Normalisation& normalisation, Augmentation augmentation);

  AugmentationDraw draw(RandomKey sample_key) const;

  // Writes the image as normalised floats, channel by channel, to out[0 … elements).
  // `sample_key` is RandomKey(seed).with(epoch).with(sample); without augmentation nothing is drawn from it.
  void operator()(std::span<const uint8_t> image, RandomKey sample_key, float* out) const;

  using ByteToFloat = std::array<float, 256>;                      // (byte / 255 - mean) / deviation
  std::span<const ByteToFloat> tables() const { return tables_; }  // per channel

 private:
  void plain(const uint8_t* image, float* out) const;
  void augmented(const uint8_t* image, const AugmentationDraw& draw, float* out) const;

  ImageShape shape_;
  Augmentation augmentation_;
  std::vector<ByteToFloat> tables_;
};

}  // namespace paceline
