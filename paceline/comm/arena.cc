#include "paceline/comm/arena.h"

#include <utility>

namespace paceline {

void Arena::retire(std::vector<Memory> memory, std::function<bool()> free) {
  release_retired();
  const std::lock_guard lock(mutex_);
  retired_.push_back({std::move(memory), std::move(free)});
}

void Arena::release_retired() {
  std::vector<Retired> gone;  // destroyed without the lock: giving memory back may come here again
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < retired_.size();) {
    if (retired_[i].free()) {
      std::swap(retired_[i], retired_.back());
      gone.push_back(std::move(retired_.back()));
      retired_.pop_back();
    } else {
      ++i;
    }
  }
}

}  // namespace paceline
