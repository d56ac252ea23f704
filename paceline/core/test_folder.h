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
  TestFolder() {
    std::string name = testing::TempDir() + "/paceline-XXXXXX";
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

}  // namespace paceline
