#include "paceline/data/synthetic.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "paceline/core/check.h"
#include "paceline/core/random.h"

namespace paceline {
namespace {

constexpr int64_t kTiles = 4;  // per side of a pattern
constexpr int64_t kMaxClasses = 1 << 20, kMaxChannels = 64, kMaxImageSize = 4096;
constexpr uint64_t kMaxBytes = uint64_t{64} << 30;

void expect_between(const char* what, int64_t value, int64_t low, int64_t high, const char* why = "") {
  if (value < low || value > high) {
    throw RecipeError(fmt::format("synthetic data: {} is {}, expected {} to {}{}", what, value, low, high, why));
  }
}

// Images one by one, each from its number alone.
class Pictures {
 public:
  Pictures(ImageShape shape, int64_t classes, uint64_t seed, std::string_view part)
      : shape_(shape),
        classes_(classes),
        pattern_key_(RandomKey(seed).with("synthetic pattern")),
        noise_key_(RandomKey(seed).with("synthetic noise").with(part)) {}

  const ImageShape& shape() const { return shape_; }
  int64_t classes() const { return classes_; }
  int64_t label(int64_t sample) const { return sample % classes_; }

  // shape().elements() bytes.
  void draw(int64_t sample, uint8_t* pixel) const {
    const RandomKey tiles = pattern_key_.with(static_cast<uint64_t>(label(sample)));
    const uint64_t noise = noise_key_.with(static_cast<uint64_t>(sample)).value();

    std::array<uint32_t, 4> block{};  // of 16 noise bytes
    size_t element = 0;
    for (int64_t channel = 0; channel < shape_.channels; ++channel) {
      std::array<int, kTiles * kTiles> brightness{};
      for (int64_t tile = 0; tile < kTiles * kTiles; ++tile) {
        brightness[static_cast<size_t>(tile)] =
            64 + static_cast<int>(tiles.below(static_cast<uint64_t>(channel * kTiles * kTiles + tile), 128));
      }
      for (int64_t y = 0; y < shape_.height; ++y) {
        const int* row = &brightness[static_cast<size_t>(y * kTiles / shape_.height * kTiles)];
        for (int64_t x = 0; x < shape_.width; ++x, ++element) {
          if (element % 16 == 0) block = philox(noise, element / 16, 0);
          const int noise_byte = static_cast<int>(block[element / 4 % 4] >> (element % 4 * 8) & 0xff);
          // 64 … 191 plus -64 … 63: always a byte.
          *pixel++ = static_cast<uint8_t>(row[x * kTiles / shape_.width] + noise_byte / 2 - 64);
        }
      }
    }
  }

 private:
  ImageShape shape_;
  int64_t classes_;
  RandomKey pattern_key_, noise_key_;
};

// Draws an image when it is first asked for, and keeps it: opening a large set takes no time, and a run that waits for
// its images can be interrupted between batches.
class SyntheticDataset final : public Dataset {
 public:
  SyntheticDataset(Pictures pictures, int64_t samples)
      : pictures_(std::move(pictures)),
        samples_(static_cast<size_t>(samples)),
        pixels_(new uint8_t[samples_ * pictures_.shape().elements()]),
        drawn_(new std::atomic<bool>[samples_]()) {}

  size_t size() const override { return samples_; }
  ImageShape shape() const override { return pictures_.shape(); }
  int64_t classes() const override { return pictures_.classes(); }
  int64_t label(size_t index) const override { return pictures_.label(static_cast<int64_t>(index)); }

  std::span<const uint8_t> image(size_t index, std::span<uint8_t>) const override {
    CHECK_LT(index, samples_);
    const size_t elements = pictures_.shape().elements();
    uint8_t* const pixels = pixels_.get() + index * elements;
    if (!drawn_[index].load(std::memory_order_acquire)) {
      const std::scoped_lock lock(drawing_[index % drawing_.size()]);
      if (!drawn_[index].load(std::memory_order_relaxed)) pictures_.draw(static_cast<int64_t>(index), pixels);
      drawn_[index].store(true, std::memory_order_release);
    }
    return {pixels, elements};
  }

 private:
  Pictures pictures_;
  size_t samples_;
  std::unique_ptr<uint8_t[]> pixels_;  // untouched, and so without memory, until they are drawn
  std::unique_ptr<std::atomic<bool>[]> drawn_;
  mutable std::array<std::mutex, 64> drawing_;  // each of every 64th image
};

}  // namespace

LabelledImages make_synthetic(ImageShape shape, int64_t classes, int64_t samples, uint64_t seed,
                              std::string_view part) {
  const Pictures pictures(shape, classes, seed, part);
  LabelledImages images{.shape = shape, .classes = classes};
  const size_t elements = shape.elements();
  images.pixels.resize(static_cast<size_t>(samples) * elements);
  for (int64_t sample = 0; sample < samples; ++sample) {
    images.labels.push_back(pictures.label(sample));
    pictures.draw(sample, images.pixels.data() + static_cast<size_t>(sample) * elements);
  }
  return images;
}

DatasetPair open_synthetic(const DatasetOptions& options) {
  expect_between("classes", options.classes, 1, kMaxClasses);
  expect_between("channels", options.channels, 1, kMaxChannels);
  expect_between("image_size", options.image_size, 1, kMaxImageSize);
  const ImageShape shape = {.channels = options.channels, .height = options.image_size, .width = options.image_size};
  const int64_t most = static_cast<int64_t>(kMaxBytes / shape.elements());
  constexpr const char* kWhy = " (64 GiB of images in memory; 'recipe plot' and 'explain step' need none)";
  expect_between("train_samples", options.train_samples, 0, most, kWhy);
  expect_between("test_samples", options.test_samples, 0, most, kWhy);

  const int64_t train = options.train_samples == 0 ? kSyntheticTrainSamples : options.train_samples;
  const int64_t test = options.test_samples == 0 ? kSyntheticTestSamples : options.test_samples;
  const auto make = [&](int64_t samples, std::string_view part) {
    return std::make_shared<SyntheticDataset>(Pictures(shape, options.classes, options.seed, part), samples);
  };
  const size_t channels = static_cast<size_t>(options.channels);
  return {
      .train = make(train, "train"),
      .test = make(test, "test"),
      // Tiles and noise are each uniform over 128 of 256 values: 2 · (128/255)²/12 is the variance.
      .normalisation = {.mean = std::vector<float>(channels, 0.5f), .deviation = std::vector<float>(channels, 0.205f)}};
}

}  // namespace paceline
