#include "paceline/rendezvous/watchdog.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <vector>

#include "paceline/core/clock.h"
#include "paceline/rendezvous/deadline.h"
#include "paceline/rendezvous/descriptor.h"
#include "paceline/rendezvous/quiet_thread.h"

namespace paceline {
namespace {

// What this rank does in a group, at one moment.
struct Sighting {
  WatchedGroup group;
  RankStatus mine;
};

RankStatus status_in(const WatchedGroup& group, int64_t now_ns) {
  const StatusCell::Reading reading = group.status->read();
  RankStatus status = {.rank = group.rank,
                       .state = reading.busy ? RankStatus::State::busy : RankStatus::State::idle,
                       .operation = reading.operation,
                       .for_ms = (now_ns - reading.since_ns) / 1'000'000};
  status.set_work(reading.life, now_ns);
  return status;
}

}  // namespace

class Watchdog::Patrol {
 public:
  Patrol(std::unique_ptr<StoreClient> client, std::shared_ptr<Monitor> monitor, Options options)
      : client_(std::move(client)),
        monitor_(std::move(monitor)),
        options_(std::move(options)),
        period_ms_(std::max<int64_t>(options_.ask_after_ms / 2, 1)),
        alarm_heard_(monitor_->alarm(), [this] { wake_up_.call(); }),
        thread_(start_quiet_thread([this] { walk(); })) {}

  ~Patrol() {
    leaving_ = true;
    wake_up_.call();
    thread_.join();
  }

 private:
  void walk() {
    talking_to_the_store([&] { hear_news(); });  // what came with the welcome: no poll() would tell of it
    Deadline next_look(period_ms_);
    while (!leaving_) {
      monitor_->beat();
      const bool store_speaks = sleep_until(next_look);
      if (leaving_) break;
      if (store_speaks) talking_to_the_store([&] { hear_news(); });
      if (next_look.passed()) {
        next_look = Deadline(period_ms_);
        talking_to_the_store([&] { report_stalls(); });
      }
      if (monitor_->alarm().raised()) follow_up_the_alarm();
    }
    talking_to_the_store([&] { take_leave(); });
  }

  // Whether the store has said something.
  bool sleep_until(const Deadline& deadline) {
    pollfd events[] = {{wake_up_.descriptor(), POLLIN, 0}, {store_is_there_ ? client_->descriptor() : -1, POLLIN, 0}};
    const int ready = ::poll(events, 2, deadline.poll_ms());  // interrupted: looks around early
    wake_up_.clear();
    return ready > 0 && events[1].revents != 0;
  }

  template <class Body>
  void talking_to_the_store(const Body& body) {
    if (!store_is_there_) return;
    try {
      body();
    } catch (const PeerError& error) {
      store_is_there_ = false;
      if (!leaving_) monitor_->alarm().raise(error.what());
    }
  }

  // ---- news ----
  void hear_news() {
    for (const StoreNews& news : client_->news()) {
      switch (news.kind) {
        case StoreNews::Kind::died:
          raise_what_all_know(death_text(news));
          break;
        case StoreNews::Kind::failed:
          raise_what_all_know(failure_text(news));
          break;
        case StoreNews::Kind::ask:
          if (const auto sighting = find(news.group)) client_->answer(news.group, sighting->mine);
          break;
        case StoreNews::Kind::statuses:
          judge(news);
          break;
        case StoreNews::Kind::ended:  // matters only to who waits for that rank: the statuses then say so
          break;
      }
    }
  }

  void raise_what_all_know(const std::string& text) {
    others_know_ = true;
    monitor_->alarm().raise(text);
  }

  // In the words of the operation that the dead rank keeps from finishing, if there is one.
  std::string death_text(const StoreNews& death) const {
    const auto busy_with_it = [&](const WatchedGroup& group, const RankStatus& mine) {
      return mine.state == RankStatus::State::busy &&
             std::ranges::find(group.world_ranks, death.rank) != group.world_ranks.end();
    };
    for (const auto& [group, mine] : sightings(busy_with_it)) {
      const auto place = std::ranges::find(group.world_ranks, death.rank) - group.world_ranks.begin();
      const RankStatus dead{.rank = static_cast<int>(place), .state = RankStatus::State::dead, .detail = death.text};
      if (const auto text = diagnose(group.name, mine, {&dead, 1}, monitor_->timeout_ms())) return *text;
    }
    return failure_text(death);
  }

  void judge(const StoreNews& news) {
    const auto sighting = find(news.group);
    unanswered_since_ns_.reset();
    if (!sighting || sighting->mine.state != RankStatus::State::busy || monitor_->alarm().raised()) return;
    if (const auto excuse = find_excuse(sighting->mine, news.statuses, monitor_->timeout_ms()))
      monitor_->excuse(*excuse);
    const auto verdict = diagnose(news.group, sighting->mine, news.statuses, monitor_->timeout_ms());
    if (!verdict) return;
    tell_the_others(*verdict);
    monitor_->alarm().raise(*verdict);
  }

  // ---- this process ----
  // The groups that are wanted(). Where there are none, as nearly always, nothing is allocated.
  template <class Wanted>
  std::vector<Sighting> sightings(const Wanted& wanted) const {
    std::vector<Sighting> found;
    const int64_t now_ns = SteadyClock().now_ns();
    const auto visit = [&](const WatchedGroup& group) {
      const RankStatus mine = status_in(group, now_ns);
      if (wanted(group, mine)) found.push_back({group, mine});
    };
    monitor_->each_group(std::cref(visit));
    return found;
  }

  std::optional<Sighting> find(const std::string& name) const {
    auto found = sightings([&](const WatchedGroup& group, const RankStatus&) { return group.name == name; });
    return found.empty() ? std::nullopt : std::optional(std::move(found.front()));
  }

  void report_stalls() {
    if (monitor_->alarm().raised()) return;
    const auto stalled = [&](const WatchedGroup&, const RankStatus& mine) {
      return mine.state == RankStatus::State::busy && mine.for_ms >= options_.ask_after_ms;
    };
    for (const auto& [group, mine] : sightings(stalled)) {
      if (store_hangs_during(mine)) return raise_that_the_store_hangs(group, mine);
      client_->report(group.name, group.world_ranks, mine);
      if (!unanswered_since_ns_) unanswered_since_ns_ = SteadyClock().now_ns();
    }
  }

  // The process that serves the store may be the one that is stopped: then nobody is left to tell.
  int64_t unanswered_ms() const {
    return unanswered_since_ns_ ? (SteadyClock().now_ns() - *unanswered_since_ns_) / 1'000'000 : 0;
  }
  bool store_hangs_during(const RankStatus& mine) const {
    const int64_t timeout_ms = monitor_->timeout_ms();
    return unanswered_ms() >= std::min<int64_t>(timeout_ms / 2, 5000) && monitor_->out_of_patience(mine.for_ms);
  }
  void raise_that_the_store_hangs(const WatchedGroup& group, const RankStatus& mine) {
    monitor_->alarm().raise(
        fmt::format("rank {}: {} in group '{}' did not finish in {:.1f} s, and the rendezvous store has said nothing "
                    "for {:.1f} s: {} "
                    "is stopped, or its host hangs or cannot be reached",
                    group.rank, to_text(mine.operation), group.name, 1e-3 * static_cast<double>(mine.for_ms),
                    1e-3 * static_cast<double>(unanswered_ms()), options_.server));
  }

  void take_leave() {
    if (monitor_->alarm().raised() && !others_know_) tell_the_others(monitor_->alarm().text());
    const auto any = [](const WatchedGroup&, const RankStatus&) { return true; };
    for (const auto& [group, mine] : sightings(any)) client_->answer(group.name, mine);
  }

  void tell_the_others(const std::string& text) {
    others_know_ = true;
    client_->fail(text);
  }

  // An engine may have raised it: the others must hear of it. Then somebody may hang where no alarm is heard.
  void follow_up_the_alarm() {
    const std::string text = monitor_->alarm().text();
    if (!others_know_) talking_to_the_store([&] { tell_the_others(text); });
    if (!alarm_since_ns_) alarm_since_ns_ = SteadyClock().now_ns();
    const int64_t since_alarm_ms = (SteadyClock().now_ns() - *alarm_since_ns_) / 1'000'000;
    const auto hangs = [&](const WatchedGroup&, const RankStatus& mine) {
      return mine.state == RankStatus::State::busy && std::min(mine.for_ms, since_alarm_ms) >= options_.grace_ms;
    };
    if (gave_up_ || !options_.give_up || sightings(hangs).empty()) return;
    gave_up_ = true;
    options_.give_up(text);
  }

  std::unique_ptr<StoreClient> client_;
  std::shared_ptr<Monitor> monitor_;
  Options options_;
  int64_t period_ms_;
  bool store_is_there_ = true;
  bool others_know_ = false;  // of the alarm
  bool gave_up_ = false;
  std::optional<int64_t> alarm_since_ns_;
  std::optional<int64_t> unanswered_since_ns_;  // of reports to the store
  WakeUp wake_up_;
  std::atomic<bool> leaving_{false};
  Alarm::Listener alarm_heard_;
  std::thread thread_;
};

Watchdog::Watchdog(std::unique_ptr<StoreClient> client, std::shared_ptr<Monitor> monitor, Options options)
    : patrol_(std::make_unique<Patrol>(std::move(client), std::move(monitor), std::move(options))) {}
Watchdog::~Watchdog() = default;

}  // namespace paceline
