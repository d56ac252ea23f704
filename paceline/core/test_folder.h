// For tests: a new empty folder, removed when it goes out of scope.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "paceline/core/error.h"

namespace paceline {

class TestFolder {
 public:
  explicit TestFolder(const std::filesystem::path& parent = testing::TempDir()) {
    std::string name = parent / "paceline-XXXXXX";
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

 private:
  std::filesystem::path path_;
};

// In memory where there is such a folder: the system would write all of it to the disk elsewhere.
class MemoryFolder : public TestFolder {
 public:
  MemoryFolder() : TestFolder(::access("/dev/shm", W_OK) == 0 ? std::string("/dev/shm") : testing::TempDir()) {}
};

}  // namespace paceline
