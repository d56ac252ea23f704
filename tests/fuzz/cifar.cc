// CIFAR's binary files (data/cifar.h).
//
// Input: which labels a record has, how many records the file shall have, the file.
#include "paceline/data/cifar.h"

#include "paceline/core/error.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  static fuzz::MemoryFile file;
  std::span<const uint8_t> input(data, size);
  const CifarLabels labels = fuzz::take_byte(input) % 2 == 0 ? CifarLabels{10} : CifarLabels{20, 100};
  const size_t records = fuzz::take_byte(input) % 3;
  const std::filesystem::path paths[] = {file.write(input)};
  try {
    const LabelledImages images = read_cifar(paths, labels, records);
    fuzz::require(images.labels.size() == records, "as many labels as records");
    fuzz::require(images.pixels.size() == records * kCifarShape.elements(), "as many images as records");
    for (const auto label : images.labels) fuzz::require(label >= 0 && label < labels.back(), "labels are classes");
    const size_t record_bytes = labels.size() + kCifarShape.elements();
    for (size_t i = 0; i < records; ++i)
      fuzz::require(input[i * record_bytes + labels.size() - 1] == images.labels[i], "the last label is learnt");
  } catch (const DataError&) {
  }
  return 0;
}
