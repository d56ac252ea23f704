// SampleReader: the samples at positions of an epoch's order, as a model sees them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "paceline/data/dataset.h"
#include "paceline/data/sampler.h"
#include "paceline/data/transforms.h"

namespace paceline {

// One sample, or a DataError that says what is wrong with it.
struct LabelledImage {
  std::span<const uint8_t> bytes;  // as Dataset::image()
  int64_t label;
};
LabelledImage checked_sample(const Dataset& dataset, size_t index, std::span<uint8_t> scratch);

// Thread-safe.
class SampleReader {
 public:
  // Throws DataError for an empty data set, RecipeError when the augmentation does not fit its images.
  SampleReader(std::shared_ptr<const Dataset> dataset, const Normalisation& normalisation, Augmentation augmentation,
               uint64_t seed, bool shuffle);

  uint64_t data_size() const { return dataset_->size(); }
  ImageShape shape() const { return shape_; }

  // Writes range.size() images (CHW each) and labels. Throws what the data set throws, and DataError for a sample that
  // cannot be. REQUIRES: scratch.size() >= shape().elements(), of this thread alone
  void read(const BatchRange& range, std::span<uint8_t> scratch, float* images, int64_t* labels) const;

 private:
  std::shared_ptr<const Dataset> dataset_;
  ImageShape shape_;
  uint64_t seed_;
  Sampler sampler_;
  Transform transform_;
};

}  // namespace paceline
