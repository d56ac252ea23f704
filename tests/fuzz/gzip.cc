// Compressed IDX files (data/idx.h) as they lie on the disk: the stream itself may be damaged.
//
// Input: the number of dimensions, the file. Every second mutation is of the contents, compressed again: behind a wrong
// checksum nothing new would be found.
#include "tests/fuzz/gzip.h"

#include <cstring>

#include "paceline/core/error.h"
#include "paceline/data/idx.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  static fuzz::MemoryFile file;
  std::span<const uint8_t> input(data, size);
  const size_t dimensions = fuzz::take_byte(input) % 5;
  const auto path = file.write(input);
  try {
    const IdxFile read = read_idx(path, dimensions);
    uint64_t expected = 1;
    for (const uint64_t length : read.dimensions) expected *= length;
    fuzz::require(read.dimensions.size() == dimensions && read.values.size() == expected, "as much as the header says");
  } catch (const DataError&) {
  }
  return 0;
}

#ifdef PACELINE_FUZZ
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  using namespace paceline;
  if (seed % 2 == 0 || size < 2) return LLVMFuzzerMutate(data, size, most);
  std::vector<uint8_t> plain = fuzz::gunzip({data + 1, size - 1}, most);
  const size_t before = plain.size();
  plain.resize(most);
  plain.resize(LLVMFuzzerMutate(plain.data(), before, most));
  const std::vector<uint8_t> compressed = fuzz::gzip(plain);
  if (compressed.size() + 1 > most) return size;
  std::memcpy(data + 1, compressed.data(), compressed.size());
  return compressed.size() + 1;
}
#endif
