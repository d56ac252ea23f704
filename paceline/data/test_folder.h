// For the tests of this folder: a temporary folder, files of bytes, and what a DataError says.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "paceline/core/error.h"

namespace paceline {

using Bytes = std::vector<uint8_t>;

// A new empty folder, removed at the end of the test.
class TestFolder {
 public:
  TestFolder() {
    std::string name = testing::TempDir() + "/paceline-data-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw FileError("cannot create " + name);
    path_ = name;
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  std::filesystem::path write(const std::filesystem::path& name, const Bytes& bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream stream(path_ / name, std::ios::binary);
    stream.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    stream.close();
    EXPECT_TRUE(stream.good());
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

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
