// Decoded images in one file, which every process of a host maps: they are decoded once, and ranks share the memory.
//
// The file is a page of text that says what it holds, followed by the images as Dataset::image() gives them. It is
// written beside its name and renamed, so that it is whole or not there. A file of another version or source, and one
// that was cut, count as missing; whoever changes pixels in place goes unnoticed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "paceline/data/dataset.h"

namespace paceline {

struct PackedContents {
  ImageShape shape;
  size_t count = 0;
  std::string fingerprint;  // of what the images are decoded from: a line of text
};

class PackedImages {
 public:
  // Null when the file is missing, cannot be read, or does not hold exactly these contents.
  static std::shared_ptr<const PackedImages> map(const std::filesystem::path& file, const PackedContents& contents);

  ~PackedImages();
  PackedImages(const PackedImages&) = delete;
  PackedImages& operator=(const PackedImages&) = delete;

  size_t count() const { return contents_.count; }
  ImageShape shape() const { return contents_.shape; }
  std::span<const uint8_t> image(size_t index) const;

 private:
  PackedImages(PackedContents contents, void* memory, size_t bytes)
      : contents_(std::move(contents)), memory_(memory), bytes_(bytes) {}

  PackedContents contents_;
  void* memory_;
  size_t bytes_;
};

// Writes one image to `pixels`. Called from several threads at once.
using DecodeImage = std::function<void(size_t index, std::span<uint8_t> pixels)>;

// The images from the first of the files `places` that holds them. Where none does, they are decoded on all cores and
// written to the first place that can be written. Processes that start at once leave that to one of them and wait.
// Throws what `decode` throws for the first image that it refuses; FileError when no place can be written.
std::shared_ptr<const PackedImages> open_packed_images(const std::vector<std::filesystem::path>& places,
                                                       const PackedContents& contents, const DecodeImage& decode);

// Images first … first + labels.size() - 1 of a file, with their labels.
class PackedDataset : public Dataset {
 public:
  PackedDataset(std::shared_ptr<const PackedImages> images, size_t first, std::vector<int64_t> labels, int64_t classes);

  size_t size() const override { return labels_.size(); }
  ImageShape shape() const override { return images_->shape(); }
  int64_t classes() const override { return classes_; }
  std::span<const uint8_t> image(size_t index, std::span<uint8_t> scratch) const override;
  int64_t label(size_t index) const override;

 private:
  std::shared_ptr<const PackedImages> images_;
  size_t first_;
  std::vector<int64_t> labels_;
  int64_t classes_;
};

}  // namespace paceline
