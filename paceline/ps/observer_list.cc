#include "paceline/ps/observer_list.h"

#include <charconv>
#include <fstream>

#include "paceline/core/file.h"

namespace paceline {

ObserverList::ObserverList(std::filesystem::path folder) : folder_(std::move(folder)) {
  if (folder_.empty()) return;
  make_directories(folder_);
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    const std::string name = entry.path().filename();
    int observer = 0;
    const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), observer);
    if (failure == std::errc() && end == name.data() + name.size()) observers_.insert(observer);
  }
}

// One that cannot be written is only not waited for after a restart.
void ObserverList::insert(int observer) {
  if (observers_.insert(observer).second && !folder_.empty()) std::ofstream(folder_ / std::to_string(observer));
}

void ObserverList::erase(int observer) {
  std::error_code ignored;
  if (observers_.erase(observer) > 0 && !folder_.empty())
    std::filesystem::remove(folder_ / std::to_string(observer), ignored);
}

}  // namespace paceline
