#include "paceline/ps/observer_list.h"

#include <fstream>

#include "paceline/ps/numbered_files.h"

namespace paceline {

ObserverList::ObserverList(std::filesystem::path folder) : folder_(std::move(folder)) {
  if (folder_.empty()) return;
  for (const auto& [observer, file] : numbered_files(folder_)) observers_.insert(observer);
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
