#include "paceline/data/synthetic.h"

#include <algorithm>
#include <array>
#include <memory>

#include "paceline/core/random.h"

namespace paceline {
namespace {

constexpr int64_t kTiles = 4;  // per side of a pattern
constexpr int64_t kMaxClasses = 1 << 20, kMaxChannels = 64, kMaxImageSize = 4096;
constexpr uint64_t kMaxBytes = uint64_t{64} << 30;

void expect_between(const char* what, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) {
    throw RecipeError(fmt::format("synthetic data: {} is {}, expected {} to {}", what, value, low, high));
  }
}

}  // namespace

LabelledImages make_synthetic(ImageShape shape, int64_t classes, int64_t samples, uint64_t seed,
                              std::string_view part) {
  LabelledImages images{.shape = shape, .classes = classes};
  const size_t elements = shape.elements();
  images.pixels.resize(static_cast<size_t>(samples) * elements);
  images.labels.resize(static_cast<size_t>(samples));
  const RandomKey pattern_key = RandomKey(seed).with("synthetic pattern");
  const RandomKey noise_key = RandomKey(seed).with("synthetic noise").with(part);

  uint8_t* pixel = images.pixels.data();
  for (int64_t sample = 0; sample < samples; ++sample) {
    const int64_t label = sample % classes;
    images.labels[static_cast<size_t>(sample)] = label;
    const RandomKey tiles = pattern_key.with(static_cast<uint64_t>(label));
    const uint64_t noise = noise_key.with(static_cast<uint64_t>(sample)).value();

    std::array<uint32_t, 4> block{};  // of 16 noise bytes
    size_t element = 0;
    for (int64_t channel = 0; channel < shape.channels; ++channel) {
      std::array<int, kTiles * kTiles> brightness{};
      for (int64_t tile = 0; tile < kTiles * kTiles; ++tile) {
        brightness[static_cast<size_t>(tile)] =
            64 + static_cast<int>(tiles.below(static_cast<uint64_t>(channel * kTiles * kTiles + tile), 128));
      }
      for (int64_t y = 0; y < shape.height; ++y) {
        const int* row = &brightness[static_cast<size_t>(y * kTiles / shape.height * kTiles)];
        for (int64_t x = 0; x < shape.width; ++x, ++element) {
          if (element % 16 == 0) block = philox(noise, element / 16, 0);
          const int noise_byte = static_cast<int>(block[element / 4 % 4] >> (element % 4 * 8) & 0xff);
          // 64 … 191 plus -64 … 63: always a byte.
          *pixel++ = static_cast<uint8_t>(row[x * kTiles / shape.width] + noise_byte / 2 - 64);
        }
      }
    }
  }
  return images;
}

DatasetPair open_synthetic(const DatasetOptions& options) {
  expect_between("classes", options.classes, 1, kMaxClasses);
  expect_between("channels", options.channels, 1, kMaxChannels);
  expect_between("image_size", options.image_size, 1, kMaxImageSize);
  const ImageShape shape = {.channels = options.channels, .height = options.image_size, .width = options.image_size};
  const int64_t most = static_cast<int64_t>(kMaxBytes / shape.elements());
  expect_between("train_samples", options.train_samples, 0, most);
  expect_between("test_samples", options.test_samples, 0, most);

  const int64_t train = options.train_samples == 0 ? kSyntheticTrainSamples : options.train_samples;
  const int64_t test = options.test_samples == 0 ? kSyntheticTestSamples : options.test_samples;
  const auto make = [&](int64_t samples, std::string_view part) {
    return std::make_shared<MemoryDataset>(make_synthetic(shape, options.classes, samples, options.seed, part));
  };
  const size_t channels = static_cast<size_t>(options.channels);
  return {
      .train = make(train, "train"),
      .test = make(test, "test"),
      // Tiles and noise are each uniform over 128 of 256 values: 2 · (128/255)²/12 is the variance.
      .normalisation = {.mean = std::vector<float>(channels, 0.5f), .deviation = std::vector<float>(channels, 0.205f)}};
}

}  // namespace paceline
