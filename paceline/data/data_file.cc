#include "paceline/data/data_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "paceline/core/error.h"

namespace paceline {

std::vector<uint8_t> read_data_file(const std::filesystem::path& path, uint64_t max_bytes) {
  std::error_code failure;
  const std::filesystem::file_status status = std::filesystem::status(path, failure);
  if (!std::filesystem::exists(status)) throw DataError(fmt::format("{}: there is no such file", path.string()));
  // A folder cannot be read; a pipe or a device has no size to trust.
  if (!std::filesystem::is_regular_file(status)) throw DataError(fmt::format("{}: not a regular file", path.string()));
  const uint64_t bytes = std::filesystem::file_size(path, failure);
  std::ifstream stream(path, std::ios::binary);
  if (failure || !stream) throw DataError(fmt::format("{}: cannot be read: {}", path.string(), std::strerror(errno)));

  if (bytes > max_bytes) {
    bad_data_file(path, max_bytes, fmt::format("the end of a file of at most {} bytes", max_bytes),
                  fmt::format("{} bytes in all", bytes));
  }

  std::vector<uint8_t> contents(bytes);
  stream.read(reinterpret_cast<char*>(contents.data()), static_cast<std::streamsize>(bytes));
  const uint64_t found = static_cast<uint64_t>(stream.gcount());
  if (found != bytes) bad_data_file(path, found, fmt::format("{} bytes", bytes), "a read error or the end");
  return contents;
}

void bad_data_file(const std::filesystem::path& path, uint64_t offset, const std::string& expected,
                   const std::string& found) {
  throw DataError(fmt::format("{}, byte {}: expected {}, found {}; the file is damaged or incomplete: fetch it again",
                              path.string(), offset, expected, found));
}

}  // namespace paceline
