#include "paceline/comm/monitor.h"

namespace paceline {

bool Monitor::report_failure(const std::string& text) {
  if (!report_ || reported_.exchange(true)) return false;
  report_(text);
  return true;
}

void Monitor::add(const WatchedGroup& group) {
  const std::lock_guard lock(mutex_);
  groups_.push_back(group);
}

void Monitor::remove(const StatusCell* status) {
  const std::lock_guard lock(mutex_);
  std::erase_if(groups_, [&](const WatchedGroup& group) { return group.status == status; });
}

// The lock is held during the visits: who wants to take a status cell away waits in remove() until nobody reads it.
void Monitor::each_group(const std::function<void(const WatchedGroup&)>& visit) const {
  const std::lock_guard lock(mutex_);
  for (const WatchedGroup& group : groups_) visit(group);
}

}  // namespace paceline
