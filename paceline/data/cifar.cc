#include "paceline/data/cifar.h"

#include <fmt/format.h>

#include <memory>
#include <system_error>
#include <utility>

#include "paceline/core/error.h"
#include "paceline/data/data_file.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

struct CifarLayout {
  fs::path folder;  // that the archive unpacks to
  std::vector<fs::path> train, test;
  size_t records_per_train_file, records_per_test_file;
  CifarLabels labels;
};

DatasetPair open_cifar(const DatasetOptions& options, const CifarLayout& layout, Normalisation normalisation) {
  fs::path root = options.root;
  std::error_code ignored;  // a folder that cannot be looked at counts as missing
  if (fs::is_directory(root / layout.folder, ignored)) root /= layout.folder;
  const auto read = [&](std::vector<fs::path> files, size_t records_per_file) {
    for (fs::path& file : files) file = root / file;
    return read_cifar(files, layout.labels, records_per_file);
  };
  LabelledImages train =
      first_samples(read(layout.train, layout.records_per_train_file), options.train_samples, "training", root);
  LabelledImages test =
      first_samples(read(layout.test, layout.records_per_test_file), options.test_samples, "test", root);
  return {.train = std::make_shared<MemoryDataset>(std::move(train)),
          .test = std::make_shared<MemoryDataset>(std::move(test)),
          .normalisation = std::move(normalisation)};
}

}  // namespace

LabelledImages read_cifar(std::span<const fs::path> files, const CifarLabels& labels, size_t records_per_file) {
  const size_t record_bytes = labels.size() + kCifarShape.elements();
  LabelledImages images{.shape = kCifarShape, .classes = labels.back()};
  images.labels.reserve(files.size() * records_per_file);
  images.pixels.reserve(files.size() * records_per_file * kCifarShape.elements());
  for (const fs::path& file : files) {
    const std::vector<uint8_t> bytes = read_data_file(file, records_per_file * record_bytes);
    if (const size_t expected = records_per_file * record_bytes; bytes.size() != expected) {
      throw DataError(
          fmt::format("{}, byte {}: expected a file of {} bytes ({} images of {}), found {}; it is damaged or "
                      "incomplete, or not the "
                      "published file, the only one that is read: fetch that one",
                      file.string(), bytes.size(), expected, records_per_file, record_bytes, bytes.size()));
    }
    for (size_t at = 0; at < bytes.size(); at += record_bytes) {
      for (size_t i = 0; i < labels.size(); ++i) {
        if (bytes[at + i] >= labels[i]) {
          bad_data_file(file, at + i, fmt::format("a label below {}", labels[i]), fmt::format("{}", bytes[at + i]));
        }
      }
      const auto record = bytes.begin() + static_cast<ptrdiff_t>(at);
      const auto pixels = record + static_cast<ptrdiff_t>(labels.size());
      images.labels.push_back(*(pixels - 1));
      images.pixels.insert(images.pixels.end(), pixels, record + static_cast<ptrdiff_t>(record_bytes));
    }
  }
  return images;
}

DatasetPair open_cifar10(const DatasetOptions& options) {
  return open_cifar(
      options,
      {.folder = "cifar-10-batches-bin",
       .train = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
       .test = {"test_batch.bin"},
       .records_per_train_file = 10'000,
       .records_per_test_file = 10'000,
       .labels = {10}},
      {.mean = {0.4914f, 0.4822f, 0.4465f}, .deviation = {0.2470f, 0.2435f, 0.2616f}});
}

DatasetPair open_cifar100(const DatasetOptions& options) {
  return open_cifar(options,
                    {.folder = "cifar-100-binary",
                     .train = {"train.bin"},
                     .test = {"test.bin"},
                     .records_per_train_file = 50'000,
                     .records_per_test_file = 10'000,
                     .labels = {20, 100}},
                    {.mean = {0.5071f, 0.4865f, 0.4409f}, .deviation = {0.2673f, 0.2564f, 0.2762f}});
}

}  // namespace paceline
