#include "paceline/launch/poll_loop.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <vector>

#include "paceline/core/check.h"
#include "paceline/core/clock.h"

namespace paceline {
namespace {

int64_t now_ns() { return SteadyClock().now_ns(); }

}  // namespace

void PollLoop::watch(int descriptor, short events, Handler ready) {
  CHECK_GE(descriptor, 0);
  watches_[descriptor] = {events, false, std::move(ready)};
}

void PollLoop::pause(int descriptor, bool paused) {
  if (const auto found = watches_.find(descriptor); found != watches_.end()) found->second.paused = paused;
}

void PollLoop::forget(int descriptor) { watches_.erase(descriptor); }

PollLoop::TimerId PollLoop::after(int64_t delay_ms, Handler due) {
  timers_[next_timer_] = {now_ns() + delay_ms * 1'000'000, std::move(due)};
  return next_timer_++;
}

void PollLoop::cancel(TimerId timer) { timers_.erase(timer); }

void PollLoop::turn() {
  for (const int descriptor : wait()) {
    const auto found = watches_.find(descriptor);  // an earlier handler may have forgotten it
    if (found == watches_.end() || found->second.paused) continue;
    const Handler ready = found->second.ready;  // a copy: it may forget itself
    ready();
  }
  call_due_timers();
}

std::vector<int> PollLoop::wait() const {
  std::vector<pollfd> entries;
  for (const auto& [descriptor, watch] : watches_)
    if (!watch.paused) entries.push_back({descriptor, watch.events, 0});
  const int timeout_ms = milliseconds_to_next_timer();
  CHECK_TRUE(!entries.empty() || timeout_ms >= 0, "nothing to wait for");
  if (::poll(entries.data(), entries.size(), timeout_ms) < 0) {
    CHECK_EQ(errno, EINTR);
    return {};
  }
  std::vector<int> happened;
  for (const pollfd& entry : entries)
    if (entry.revents != 0) happened.push_back(entry.fd);
  return happened;
}

int PollLoop::milliseconds_to_next_timer() const {
  if (timers_.empty()) return -1;
  int64_t first_ns = INT64_MAX;
  for (const auto& [id, timer] : timers_) first_ns = std::min(first_ns, timer.due_ns);
  const int64_t left_ns = std::max<int64_t>(0, first_ns - now_ns());
  return static_cast<int>(std::min<int64_t>(INT_MAX, (left_ns + 999'999) / 1'000'000));
}

void PollLoop::call_due_timers() {
  const int64_t now = now_ns();
  std::vector<TimerId> due;
  for (const auto& [id, timer] : timers_)
    if (timer.due_ns <= now) due.push_back(id);
  for (const TimerId id : due) {
    const auto found = timers_.find(id);  // an earlier one may have cancelled it
    if (found == timers_.end()) continue;
    const Handler handler = std::move(found->second.due);
    timers_.erase(found);
    handler();
  }
}

}  // namespace paceline
