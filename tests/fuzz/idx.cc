// IDX files (data/idx.h): images and labels that belong together, plain and compressed.
//
// Input: the length of the labels' file (2 bytes), that file, the images' file. What is accepted is what the header
// says, and the same when it was compressed.
#include "paceline/data/idx.h"

#include <optional>

#include "paceline/core/error.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/gzip.h"

namespace paceline::fuzz {
namespace {

std::optional<LabelledImages> read(std::span<const uint8_t> images, std::span<const uint8_t> labels) {
  static MemoryFile images_file, labels_file;
  const auto images_path = images_file.write(images), labels_path = labels_file.write(labels);
  try {
    return read_idx_images(images_path, labels_path);
  } catch (const DataError&) {
    return {};
  }
}

bool is_compressed(std::span<const uint8_t> file) { return file.size() >= 2 && file[0] == 0x1f && file[1] == 0x8b; }

}  // namespace
}  // namespace paceline::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  std::span<const uint8_t> input(data, size);
  const size_t label_bytes = fuzz::take_byte(input) | size_t{fuzz::take_byte(input)} << 8;
  const auto labels = fuzz::take(input, label_bytes), images = input;
  const auto plain = fuzz::read(images, labels);
  if (plain) {
    fuzz::require(plain->pixels.size() == plain->labels.size() * plain->shape.elements(), "every image has its label");
    for (const auto label : plain->labels) fuzz::require(label >= 0 && label < plain->classes, "labels are classes");
  }
  if (fuzz::is_compressed(images) || fuzz::is_compressed(labels)) return 0;
  const auto compressed = fuzz::read(fuzz::gzip(images), fuzz::gzip(labels));
  fuzz::require(plain.has_value() == compressed.has_value(), "compressed files are accepted as plain ones are");
  if (plain) fuzz::require(plain->pixels == compressed->pixels && plain->labels == compressed->labels, "and as equal");
  return 0;
}
