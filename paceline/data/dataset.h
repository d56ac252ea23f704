// Dataset: labelled images in memory, by index; and the data sets that are known by name.
//
// A program adds its own data set with Registry<DatasetInfo>::add; everything downstream sees only this interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "paceline/core/registry.h"

namespace paceline {

struct ImageShape {
  int64_t channels = 0, height = 0, width = 0;

  size_t elements() const { return static_cast<size_t>(channels * height * width); }
  bool operator==(const ImageShape&) const = default;
};

// Images as bytes, channel by channel (CHW), all of one shape, each with a label in [0, classes()). Never changes; may
// be read from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual size_t size() const = 0;
  virtual ImageShape shape() const = 0;
  virtual int64_t classes() const = 0;

  // The pixels of one image: the data set's own memory, or decoded into `scratch` and then a view of it.
  // REQUIRES: index < size(), scratch.size() >= shape().elements()
  virtual std::span<const uint8_t> image(size_t index, std::span<uint8_t> scratch) const = 0;
  virtual int64_t label(size_t index) const = 0;
};

// Per channel, of pixels scaled to [0, 1].
struct Normalisation {
  std::vector<float> mean, deviation;
};

struct DatasetPair {
  std::shared_ptr<const Dataset> train, test;
  Normalisation normalisation;
};

struct DatasetOptions {
  std::filesystem::path root;  // the folder of the files; empty: the first default root that exists
  int64_t train_samples = 0;   // 0: all; otherwise the first so many
  int64_t test_samples = 0;    // likewise
  int64_t classes = 10;        // this and the following: synthetic data only
  int64_t channels = 3;
  int64_t image_size = 32;
  uint64_t seed = 1;
};

struct DatasetInfo {
  std::string summary;                               // one line, for lists
  std::vector<std::filesystem::path> default_roots;  // none: the data set needs no files
  std::function<DatasetPair(const DatasetOptions&)> open;
  std::string how_to_get;      // ends the message that the files are not there: "download ... and unpack it into ..."
  uint64_t train_samples = 0;  // of the whole training set, as published; 0: only opening it tells
};

// fashion_mnist, mnist, cifar10, cifar100, tiny_imagenet, synthetic.
Registry<DatasetInfo> builtin_datasets();

// Opens the data set of that name. With an empty root, the first default root that exists; when none does, a DataError
// that says which folders were tried and how to get the data.
DatasetPair open_dataset(const Registry<DatasetInfo>& datasets, const std::string& name, DatasetOptions options);

}  // namespace paceline
