#include "paceline/data/synthetic.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <thread>

namespace paceline {
namespace {

using testing::ElementsAre;

std::vector<uint8_t> copy(const Dataset& data, size_t index) {
  const auto image = data.image(index, {});
  return {image.begin(), image.end()};
}

TEST(Synthetic, HasTheShapeAskedFor) {
  const DatasetPair data =
      open_synthetic({.train_samples = 7, .test_samples = 3, .classes = 4, .channels = 2, .image_size = 5});
  EXPECT_EQ(data.train->size(), 7u);
  EXPECT_EQ(data.test->size(), 3u);
  EXPECT_EQ(data.train->shape(), (ImageShape{2, 5, 5}));
  EXPECT_EQ(data.train->classes(), 4);
  EXPECT_EQ(data.normalisation.mean.size(), 2u);
  EXPECT_EQ(data.normalisation.deviation.size(), 2u);
}

TEST(Synthetic, MakesItsOwnNumberOfSamplesWhenNoneIsAsked) {
  const DatasetPair data = open_synthetic({.image_size = 2});
  EXPECT_EQ(data.train->size(), 1024u);
  EXPECT_EQ(data.test->size(), 256u);
}

TEST(Synthetic, MakesImagesOfOnePixel) {
  const LabelledImages images = make_synthetic({1, 1, 1}, 1, 3, 1, "train");
  EXPECT_EQ(images.pixels.size(), 3u);
  EXPECT_THAT(images.labels, ElementsAre(0, 0, 0));
}

TEST(Synthetic, FollowsFromItsSeedAlone) {
  const ImageShape shape{3, 9, 9};
  const LabelledImages images = make_synthetic(shape, 10, 20, 5, "train");
  EXPECT_EQ(images.pixels, make_synthetic(shape, 10, 20, 5, "train").pixels);
  EXPECT_NE(images.pixels, make_synthetic(shape, 10, 20, 6, "train").pixels);
  auto longer = make_synthetic(shape, 10, 30, 5, "train").pixels;
  longer.resize(images.pixels.size());
  EXPECT_EQ(images.pixels, longer);
}

TEST(Synthetic, OpeningALargeSetMakesNoImageYet) {
  const DatasetPair data = open_synthetic({.train_samples = 400'000, .test_samples = 400'000, .classes = 7});
  EXPECT_EQ(data.test->size(), 400'000u);  // 1.2 GB each
  const std::vector<uint8_t> last = copy(*data.test, 399'999);
  EXPECT_EQ(data.test->label(399'999), 399'999 % 7);
  EXPECT_EQ(copy(*data.test, 399'999), last);
}

TEST(Synthetic, ThreadsThatAskForTheSameImagesGetTheSame) {
  const LabelledImages images = make_synthetic({3, 8, 8}, 10, 100, 1, "train");
  const DatasetPair data = open_synthetic({.train_samples = 100, .image_size = 8});
  std::vector<std::vector<uint8_t>> seen(4);
  {
    std::vector<std::jthread> threads;
    for (std::vector<uint8_t>& pixels : seen)
      threads.emplace_back([&] {
        for (size_t i = 0; i < 100; ++i) std::ranges::copy(data.train->image(i, {}), std::back_inserter(pixels));
      });
  }
  for (const std::vector<uint8_t>& pixels : seen) EXPECT_EQ(pixels, images.pixels);
}

TEST(Synthetic, TrainAndTestShareNoImage) {
  const DatasetPair data = open_synthetic({.train_samples = 200, .test_samples = 200, .image_size = 8});
  std::set<std::string> images;
  for (size_t i = 0; i < 200; ++i) {
    for (const Dataset* part : {data.train.get(), data.test.get()}) {
      const auto image = part->image(i, {});
      images.emplace(image.begin(), image.end());
    }
  }
  EXPECT_EQ(images.size(), 400u);
}

// The nearest class mean of the training images tells the class of the test images.
TEST(Synthetic, CanBeLearnt) {
  const DatasetPair data =
      open_synthetic({.train_samples = 200, .test_samples = 100, .classes = 10, .channels = 1, .image_size = 8});
  std::vector<std::vector<double>> means(10, std::vector<double>(64));
  for (size_t i = 0; i < 200; ++i) {
    for (size_t j = 0; j < 64; ++j)
      means[static_cast<size_t>(data.train->label(i))][j] += copy(*data.train, i)[j] / 20.0;
  }
  int right = 0;
  for (size_t i = 0; i < 100; ++i) {
    const auto image = copy(*data.test, i);
    const auto distance = [&](const std::vector<double>& mean) {
      double sum = 0;
      for (size_t j = 0; j < 64; ++j) sum += std::pow(image[j] - mean[j], 2);
      return sum;
    };
    right += std::ranges::min_element(means, {}, distance) - means.begin() == data.test->label(i);
  }
  EXPECT_GE(right, 95);
}

TEST(Synthetic, ItsNormalisationIsAboutRight) {
  const DatasetPair data = open_synthetic({.classes = 100, .channels = 1, .image_size = 16});
  double sum = 0, squares = 0;
  for (size_t i = 0; i < data.train->size(); ++i) {
    for (const uint8_t byte : copy(*data.train, i)) {
      sum += byte / 255.0;
      squares += byte / 255.0 * byte / 255.0;
    }
  }
  const double pixels = 1024 * 256, mean = sum / pixels;
  EXPECT_NEAR(mean, data.normalisation.mean[0], 0.02);
  EXPECT_NEAR(std::sqrt(squares / pixels - mean * mean), data.normalisation.deviation[0], 0.02);
}

TEST(Synthetic, RefusesOptionsThatMakeNoData) {
  EXPECT_THROW(open_synthetic({.classes = 0}), RecipeError);
  EXPECT_THROW(open_synthetic({.channels = 0}), RecipeError);
  EXPECT_THROW(open_synthetic({.image_size = 0}), RecipeError);
  EXPECT_THROW(open_synthetic({.image_size = 1'000'000'000}), RecipeError);
  EXPECT_THROW(open_synthetic({.train_samples = -1}), RecipeError);
  EXPECT_THROW(open_synthetic({.test_samples = std::numeric_limits<int64_t>::max()}), RecipeError);
}

}  // namespace
}  // namespace paceline
