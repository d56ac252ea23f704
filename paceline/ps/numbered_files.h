// Files of a server's state folder that are named by a number: one for each worker, or observer.
#pragma once

#include <charconv>
#include <filesystem>
#include <map>
#include <string>

#include "paceline/core/file.h"

namespace paceline {

// By their numbers; whatever has another name (one that was being written) is left out. Makes the folder where there is
// none.
inline std::map<int, std::filesystem::path> numbered_files(const std::filesystem::path& folder) {
  make_directories(folder);
  std::map<int, std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    int number = 0;
    const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (failure == std::errc() && end == name.data() + name.size()) files[number] = entry.path();
  }
  return files;
}

}  // namespace paceline
