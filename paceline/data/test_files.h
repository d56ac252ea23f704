// For the tests of this folder: files of bytes, and what a DataError says.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "paceline/core/error.h"
#include "paceline/core/test_folder.h"

namespace paceline {

using Bytes = std::vector<uint8_t>;

inline std::filesystem::path write_bytes(const std::filesystem::path& path, const Bytes& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream stream(path, std::ios::binary);
  stream.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  stream.close();
  EXPECT_TRUE(stream.good());
  return path;
}

// What the DataError says that `action` throws; a failure, and nothing, when it throws none.
template <class Action>
std::string data_error(Action&& action) {
  try {
    action();
  } catch (const DataError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no DataError was thrown";
  return "";
}

}  // namespace paceline
