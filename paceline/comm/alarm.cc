#include "paceline/comm/alarm.h"

#include "paceline/core/check.h"

namespace paceline {

void Alarm::raise(const std::string& text) {
  if (raised()) return;  // also where a listener does it
  const std::lock_guard lock(mutex_);
  if (raised()) return;
  text_ = text;
  raised_.store(true, std::memory_order_release);
  for (const auto& wake : listeners_) wake();
}

std::string Alarm::text() const {
  CHECK_TRUE(raised(), "an alarm that was not raised has no text");
  return text_;  // written before raised_, and never again
}

void Alarm::fail() const { throw PeerError(text()); }

Alarm::Listener::Listener(Alarm& alarm, std::function<void()> wake) : alarm_(alarm) {
  const std::lock_guard lock(alarm_.mutex_);
  place_ = alarm_.listeners_.insert(alarm_.listeners_.end(), std::move(wake));
  if (alarm_.raised()) (*place_)();
}

Alarm::Listener::~Listener() {
  const std::lock_guard lock(alarm_.mutex_);
  alarm_.listeners_.erase(place_);
}

}  // namespace paceline
