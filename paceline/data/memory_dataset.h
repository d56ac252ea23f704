// MemoryDataset: a data set whose images all lie in one array. The form that every reader of this folder produces.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/check.h"
#include "paceline/data/dataset.h"

namespace paceline {

struct LabelledImages {
  ImageShape shape;
  int64_t classes = 0;
  std::vector<uint8_t> pixels;  // image by image
  std::vector<int64_t> labels;
};

// How many of `available` samples were asked for (0: all). `part` is what the message calls the set: "training".
// Throws DataError when there are fewer.
inline size_t count_of_first(size_t available, int64_t samples, const std::string& part,
                             const std::filesystem::path& root) {
  if (samples == 0) return available;
  if (samples < 0 || static_cast<uint64_t>(samples) > available) {
    throw DataError(fmt::format("{} {} samples were asked for, {} holds {}; ask for fewer, or for 0: all of them",
                                samples, part, root.string(), available));
  }
  return static_cast<size_t>(samples);
}

// Keeps the first `samples` (0: all), as count_of_first().
inline LabelledImages first_samples(LabelledImages images, int64_t samples, const std::string& part,
                                    const std::filesystem::path& root) {
  const size_t count = count_of_first(images.labels.size(), samples, part, root);
  if (count == images.labels.size()) return images;
  images.labels.resize(count);
  images.pixels.resize(count * images.shape.elements());
  images.pixels.shrink_to_fit();
  return images;
}

class MemoryDataset : public Dataset {
 public:
  explicit MemoryDataset(LabelledImages images) : images_(std::move(images)) {
    CHECK_EQ(images_.pixels.size(), images_.labels.size() * images_.shape.elements());
  }

  size_t size() const override { return images_.labels.size(); }
  ImageShape shape() const override { return images_.shape; }
  int64_t classes() const override { return images_.classes; }

  std::span<const uint8_t> image(size_t index, std::span<uint8_t>) const override {
    CHECK_LT(index, size());
    return std::span(images_.pixels).subspan(index * images_.shape.elements(), images_.shape.elements());
  }

  int64_t label(size_t index) const override {
    CHECK_LT(index, size());
    return images_.labels[index];
  }

 private:
  LabelledImages images_;
};

}  // namespace paceline
