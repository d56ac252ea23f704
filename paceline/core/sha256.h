// SHA-256 of bytes that come in pieces.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

namespace paceline {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void update(const void* data, size_t bytes);
  std::string hex();  // 64 lower-case digits; ends the computation

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// Reads the file in blocks: takes as little memory for a large file as for a small one. Throws FileError.
std::string sha256_of_file(const std::filesystem::path& file);

}  // namespace paceline
