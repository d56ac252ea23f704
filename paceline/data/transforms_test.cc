#include "paceline/data/transforms.h"

#include <gmock/gmock.h>

#include <set>

#include "paceline/core/error.h"

namespace paceline {
namespace {

using testing::ElementsAre;

const Normalisation kColours = {.mean = {0.49f, 0.48f, 0.45f}, .deviation = {0.25f, 0.24f, 0.26f}};
const Normalisation kGrey = {.mean = {0.3f}, .deviation = {0.35f}};

std::vector<uint8_t> picture(ImageShape shape) {
  std::vector<uint8_t> bytes(shape.elements());
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7 + 13);
  return bytes;
}

std::vector<float> apply(const Transform& transform, const std::vector<uint8_t>& image, RandomKey key = RandomKey(1)) {
  std::vector<float> out(image.size(), -1000.0f);
  transform(image, key, out.data());
  return out;
}

// The definition, pixel by pixel: pad with black, crop, flip, normalise, cut out.
std::vector<float> reference(ImageShape shape, const Normalisation& normalisation, Augmentation augmentation,
                             const AugmentationDraw& draw, const std::vector<uint8_t>& image) {
  std::vector<float> out;
  for (int64_t c = 0; c < shape.channels; ++c) {
    for (int64_t y = 0; y < shape.height; ++y) {
      for (int64_t x = 0; x < shape.width; ++x) {
        const int64_t from_y = y + draw.shift_down;
        const int64_t from_x = (draw.mirror ? shape.width - 1 - x : x) + draw.shift_right;
        const bool inside = from_y >= 0 && from_y < shape.height && from_x >= 0 && from_x < shape.width;
        const float byte =
            inside ? image[static_cast<size_t>((c * shape.height + from_y) * shape.width + from_x)] : 0.0f;
        const int64_t cut_y = y - draw.cut_row + augmentation.cutout / 2;
        const int64_t cut_x = x - draw.cut_column + augmentation.cutout / 2;
        const bool cut = cut_y >= 0 && cut_y < augmentation.cutout && cut_x >= 0 && cut_x < augmentation.cutout;
        const size_t channel = static_cast<size_t>(c);
        out.push_back(cut ? 0.0f : (byte / 255.0f - normalisation.mean[channel]) / normalisation.deviation[channel]);
      }
    }
  }
  return out;
}

TEST(Transform, NormalisesEachChannelByItsOwnNumbers) {
  const ImageShape shape{3, 1, 2};
  const auto out = apply(Transform(shape, kColours, {}), {0, 255, 0, 255, 0, 255});
  EXPECT_THAT(out, ElementsAre((0.0f - 0.49f) / 0.25f, (1.0f - 0.49f) / 0.25f, (0.0f - 0.48f) / 0.24f,
                               (1.0f - 0.48f) / 0.24f, (0.0f - 0.45f) / 0.26f, (1.0f - 0.45f) / 0.26f));
}

TEST(Transform, EqualsItsDefinitionForEveryAugmentation) {
  const std::vector<Augmentation> augmentations = {{},
                                                   {.crop_padding = 2},
                                                   {.flip = true},
                                                   {.cutout = 1},
                                                   {.cutout = 4},
                                                   {.crop_padding = 4, .flip = true, .cutout = 3}};
  for (const ImageShape shape : {ImageShape{1, 5, 7}, ImageShape{3, 8, 8}, ImageShape{1, 5, 5}}) {
    const Normalisation& normalisation = shape.channels == 1 ? kGrey : kColours;
    const auto image = picture(shape);
    for (const Augmentation& augmentation : augmentations) {
      const Transform transform(shape, normalisation, augmentation);
      for (uint64_t sample = 0; sample < 200; ++sample) {
        const RandomKey key = RandomKey(7).with(sample);
        ASSERT_EQ(apply(transform, image, key),
                  reference(shape, normalisation, augmentation, transform.draw(key), image));
      }
    }
  }
}

TEST(Transform, OfASinglePixel) {
  const ImageShape shape{1, 1, 1};
  EXPECT_THAT(apply(Transform(shape, kGrey, {.flip = true}), {255}), ElementsAre((1.0f - 0.3f) / 0.35f));
  EXPECT_THAT(apply(Transform(shape, kGrey, {.cutout = 1}), {255}), ElementsAre(0.0f));
}

TEST(Transform, PadsWithBlackAndCutsOutToTheMean) {
  const ImageShape shape{1, 4, 4};
  const std::vector<uint8_t> white(16, 255);
  const float black_value = (0.0f - 0.3f) / 0.35f, white_value = (1.0f - 0.3f) / 0.35f;
  std::set<float> seen;
  const Transform transform(shape, kGrey, {.crop_padding = 2, .cutout = 1});
  for (uint64_t sample = 0; sample < 50; ++sample) {
    for (const float value : apply(transform, white, RandomKey(sample))) seen.insert(value);
  }
  EXPECT_THAT(seen, ElementsAre(black_value, 0.0f, white_value));
}

TEST(Transform, DrawsEveryPlaceAndFlipsHalfOfTheTime) {
  const Transform transform({1, 4, 5}, kGrey, {.crop_padding = 1, .flip = true, .cutout = 2});
  std::set<int64_t> down, right, rows, columns;
  int mirrored = 0;
  const int draws = 2000;
  for (int i = 0; i < draws; ++i) {
    const AugmentationDraw draw = transform.draw(RandomKey(3).with(static_cast<uint64_t>(i)));
    down.insert(draw.shift_down);
    right.insert(draw.shift_right);
    rows.insert(draw.cut_row);
    columns.insert(draw.cut_column);
    mirrored += draw.mirror;
  }
  EXPECT_THAT(down, ElementsAre(-1, 0, 1));
  EXPECT_THAT(right, ElementsAre(-1, 0, 1));
  EXPECT_THAT(rows, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(columns, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_NEAR(mirrored, draws / 2, 100);  // more than four standard deviations
}

TEST(Transform, OneOptionDoesNotChangeTheDrawsOfAnother) {
  const ImageShape shape{1, 8, 8};
  const Transform one(shape, kGrey, {.flip = true}), both(shape, kGrey, {.crop_padding = 2, .flip = true, .cutout = 2});
  for (uint64_t sample = 0; sample < 50; ++sample) {
    EXPECT_EQ(one.draw(RandomKey(sample)).mirror, both.draw(RandomKey(sample)).mirror);
  }
}

TEST(Transform, RefusesAnAugmentationThatDoesNotFit) {
  const ImageShape shape{1, 5, 7};
  EXPECT_NO_THROW(Transform(shape, kGrey, {.crop_padding = 4, .cutout = 5}));
  EXPECT_THROW(Transform(shape, kGrey, {.crop_padding = 5}), RecipeError);
  EXPECT_THROW(Transform(shape, kGrey, {.crop_padding = -1}), RecipeError);
  EXPECT_THROW(Transform(shape, kGrey, {.cutout = 6}), RecipeError);
  EXPECT_THROW(Transform(shape, kGrey, {.cutout = -1}), RecipeError);
}

TEST(Transform, RefusesANormalisationForOtherChannels) {
  EXPECT_THROW(Transform({1, 4, 4}, kColours, {}), InternalError);
  EXPECT_THROW(Transform({1, 4, 4}, {.mean = {0.5f}, .deviation = {0.0f}}, {}), InternalError);
}

}  // namespace
}  // namespace paceline
