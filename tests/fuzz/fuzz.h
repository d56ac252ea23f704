// What the fuzz targets share. A target is one function: it feeds an input to the code that reads such bytes in
// earnest, and lets only those exceptions pass that the code's contract names. Any other exception, a sanitizer's
// report or a require() that does not hold ends the process: that input is a finding.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace paceline::fuzz {

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

// A file in memory, for readers that want a path.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("fuzz", 0)) { require(descriptor_ >= 0, "memfd_create"); }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::filesystem::path write(std::span<const uint8_t> bytes) {
    require(::ftruncate(descriptor_, 0) == 0, "ftruncate");
    require(::pwrite(descriptor_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()), "pwrite");
    return "/proc/self/fd/" + std::to_string(descriptor_);
  }

 private:
  int descriptor_;
};

inline std::string_view text_of(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The first `count` bytes, or as many as there are; they are taken off `bytes`.
inline std::span<const uint8_t> take(std::span<const uint8_t>& bytes, size_t count) {
  const auto taken = bytes.first(std::min(count, bytes.size()));
  bytes = bytes.subspan(taken.size());
  return taken;
}

inline uint8_t take_byte(std::span<const uint8_t>& bytes) {
  const auto byte = take(bytes, 1);
  return byte.empty() ? 0 : byte[0];
}

}  // namespace paceline::fuzz
