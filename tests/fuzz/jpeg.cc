// JPEG images (data/jpeg.h). The input is a file that should be an image of 16 x 16 pixels.
//
// libjpeg itself is not instrumented: coverage is that of our code, and the address sanitizer sees what libjpeg writes
// into our memory only where it calls functions that are intercepted. The bytes behind the image must stay as they are.
#include "paceline/data/jpeg.h"

#include <vector>

#include "paceline/core/error.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  static fuzz::MemoryFile file;
  constexpr ImageShape kShape = {.channels = 3, .height = 16, .width = 16};
  constexpr size_t kBehind = 64;
  std::vector<uint8_t> memory(kShape.elements() + kBehind, 0xa5);
  const auto path = file.write({data, size});
  try {
    decode_jpeg(path, kShape, std::span(memory).first(kShape.elements()));
  } catch (const DataError&) {
  }
  for (size_t i = kShape.elements(); i < memory.size(); ++i)
    fuzz::require(memory[i] == 0xa5, "nothing else is written");
  return 0;
}
