// Safetensors files (core/safetensors_reader.h). The input is the file.
//
// A file that is accepted is covered by its tensors, each once.
#include <vector>

#include "paceline/core/error.h"
#include "paceline/core/safetensors_reader.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  static fuzz::MemoryFile file;
  const auto path = file.write({data, size});
  try {
    SafetensorsReader reader(path);
    uint64_t covered = 0;
    for (const SafetensorsEntry& entry : reader.entries()) {
      fuzz::require(entry.begin == covered && entry.end >= covered && entry.end <= size, "tensors cover the file");
      covered = entry.end;
      std::vector<uint8_t> bytes(entry.end - entry.begin);
      reader.read(entry, bytes.data());
    }
  } catch (const DataError&) {
  }
  return 0;
}
