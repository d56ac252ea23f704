#include "paceline/comm/monitor.h"

#include "paceline/core/clock.h"

namespace paceline {
namespace {

int64_t now_ns() { return SteadyClock().now_ns(); }

// Excuses go from rank to rank and may come back: one that is hardly newer than the last is the same one, on its way.
constexpr int64_t kSameExcuseNs = 1'000'000'000;

}  // namespace

bool Monitor::report_failure(const std::string& text) {
  if (!report_ || reported_.exchange(true)) return false;
  report_(text);
  return true;
}

void Monitor::add(const WatchedGroup& group) {
  const std::lock_guard lock(mutex_);
  groups_.push_back(group);
  group.status->show(life_);
}

void Monitor::remove(const StatusCell* status) {
  const std::lock_guard lock(mutex_);
  std::erase_if(groups_, [&](const WatchedGroup& group) { return group.status == status; });
}

void Monitor::show_life() {
  for (const WatchedGroup& group : groups_) group.status->show(life_);
}

void Monitor::beat() {
  const std::lock_guard lock(mutex_);
  life_.beat_ns = now_ns();
  show_life();
}

void Monitor::begin_chore(Chore chore) {
  const std::lock_guard lock(mutex_);
  if (chores_++ > 0) return;
  life_.chore = chore;
  life_.chore_since_ns = now_ns();
  show_life();
}

void Monitor::end_chore() {
  const std::lock_guard lock(mutex_);
  if (--chores_ > 0) return;
  life_.chore = Chore::none;
  life_.worked_until_ns = now_ns();
  show_life();
}

void Monitor::excuse(const Excuse& excuse) {
  const std::lock_guard lock(mutex_);
  const int64_t until_ns = now_ns() - excuse.since_work_ms * 1'000'000;
  if (until_ns <= life_.worked_until_ns + (excuse.direct ? 0 : kSameExcuseNs)) return;
  life_.worked_until_ns = until_ns;
  show_life();
}

bool Monitor::out_of_patience(int64_t waited_ms) const {
  if (waited_ms < timeout_ms_) return false;
  const std::lock_guard lock(mutex_);
  return life_.worked_until_ns == 0 || (now_ns() - life_.worked_until_ns) / 1'000'000 >= timeout_ms_;
}

StatusCell::Life Monitor::life() const {
  const std::lock_guard lock(mutex_);
  return life_;
}

// The lock is held during the visits: who wants to take a status cell away waits in remove() until nobody reads it.
void Monitor::each_group(const std::function<void(const WatchedGroup&)>& visit) const {
  const std::lock_guard lock(mutex_);
  for (const WatchedGroup& group : groups_) visit(group);
}

}  // namespace paceline
