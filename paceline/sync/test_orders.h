// For tests: random orders of events. Workers join, leave, come again, and push when they were released; now and then
// somebody breaks the rules, and once in each order the policy is saved and another one goes on with its state.
//
// Every answer is compared with that of a model, which sees the whole past, and with what holds for all policies.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/error.h"
#include "paceline/core/random.h"
#include "paceline/sync/policy.h"
#include "paceline/sync/test_history.h"

namespace paceline {

// Random numbers one after the other, from a counter-based key.
class Dice {
 public:
  explicit Dice(RandomKey key) : key_(key) {}
  int below(int bound) { return static_cast<int>(key_.below(next_++, static_cast<uint64_t>(bound))); }
  int from_to(int least, int most) { return least + below(most - least + 1); }
  double uniform() { return key_.uniform(next_++); }
  bool percent(int chance) { return below(100) < chance; }

 private:
  RandomKey key_;
  uint64_t next_ = 0;
};

struct OrderPlan {
  std::string policy;
  int orders = 10'000;
  int least_events = 30, most_events = 80;
  // What the policy uses beyond `workers`, which is chosen already.
  std::function<void(Dice&, SyncSettings&)> vary = [](Dice&, SyncSettings&) {};
  // Answers the last record's event. It finds no decisions there yet.
  std::function<void(SyncHistory&, const SyncSettings&)> model;
  // What else must hold, looked at when an order is over.
  std::function<void(const SyncHistory&, const SyncSettings&)> over = [](const SyncHistory&, const SyncSettings&) {};
};

class OrderPlayer {
 public:
  OrderPlayer(const OrderPlan& plan, uint64_t seed) : plan_(plan), dice_(RandomKey(seed).with(plan.policy)) {
    ids_ = dice_.from_to(1, kMostTestWorkers);
    settings_.workers = dice_.from_to(1, ids_);
    plan_.vary(dice_, settings_);
    policy_ = fresh_policy();
  }

  void play() {
    const int events = dice_.from_to(plan_.least_events, plan_.most_events);
    const int saved_at = dice_.below(events), broken_at = dice_.below(events);
    for (int at = 0; at < events && wrong_.empty(); ++at) {
      if (at == saved_at) save_and_load();
      if (at == broken_at) break_the_rules();
      happen(next_event());
    }
    if (wrong_.empty()) plan_.over(past_, settings_);
    if (!wrong_.empty()) ADD_FAILURE() << wrong_;
  }

 private:
  struct Player {
    bool live = false, computing = false;
    uint64_t version = 0;
  };

  std::unique_ptr<Policy> fresh_policy() const { return builtin_policies().at(plan_.policy)(settings_); }

  void save_and_load() {
    const std::string saved = policy_->save();
    policy_ = fresh_policy();
    policy_->load(saved);
    if (policy_->save() != saved) wrong_ = "a loaded state is saved differently: " + saved;
  }

  void break_the_rules() {
    SyncEvent event = {.kind = SyncEvent::Kind::push, .worker = dice_.below(ids_), .samples = 1, .rate = 1};
    const Player& player = players_.at(event.worker);
    event.version = player.version;
    if (!player.live) {
      if (dice_.percent(50)) event.kind = SyncEvent::Kind::leave;
    } else if (dice_.percent(30)) {
      event.kind = SyncEvent::Kind::join;
    } else if (player.computing) {
      switch (dice_.below(4)) {
        case 0:
          event.samples = 0;
          break;
        case 1:
          event.version = player.version + 1;
          break;
        case 2:
          event.rate = std::numeric_limits<double>::quiet_NaN();
          break;
        default:
          event = noise(version_ + 1, {.samples = 1, .samples_squared = 1});
          break;
      }
    }
    const std::string before = policy_->save();
    try {
      policy_->on(event);
      wrong_ = "an event that cannot be was taken";
    } catch (const PeerError&) {
      if (policy_->save() != before) wrong_ = "an event that was refused has changed the state";
    }
  }

  SyncEvent next_event() {
    if (dice_.percent(75)) time_ns_ += dice_.below(1000);
    std::vector<int> computing, waiting, absent;
    for (int id = 0; id < ids_; ++id)
      (!players_[id].live ? absent : players_[id].computing ? computing : waiting).push_back(id);
    const bool anybody = absent.size() < static_cast<size_t>(ids_);

    SyncEvent event = {.kind = SyncEvent::Kind::tick, .time_ns = time_ns_};
    if (!reports_.empty() && dice_.percent(60)) {
      event = reports_.front();
      event.time_ns = time_ns_;
      reports_.pop_front();
    } else if (!absent.empty() && (computing.empty() || dice_.percent(15))) {
      event.kind = SyncEvent::Kind::join;
      event.worker = absent[dice_.below(static_cast<int>(absent.size()))];
    } else if (anybody && (computing.empty() || dice_.percent(5))) {
      const auto& from = computing.empty() || (!waiting.empty() && dice_.percent(50)) ? waiting : computing;
      event.kind = SyncEvent::Kind::leave;
      event.worker = from[dice_.below(static_cast<int>(from.size()))];
    } else if (!dice_.percent(3)) {
      const int count = static_cast<int>(computing.size());
      const int drawn = dice_.below(count), again = dice_.below(count);
      event.kind = SyncEvent::Kind::push;
      event.worker = computing[dice_.percent(70) ? std::min(drawn, again) : drawn];  // the first ones are fast
      event.version = players_[event.worker].version;
      event.samples = dice_.percent(50) ? 8 : dice_.from_to(1, 16);
      event.rate = dice_.percent(50) ? 0.25 : dice_.uniform();
    }
    return event;
  }

  void happen(const SyncEvent& event) {
    const std::vector<Decision> answer = policy_->on(event);
    past_.records.push_back({event, {}});
    if (plan_.model) {
      plan_.model(past_, settings_);
      const std::vector<Decision> expected = past_.records.back().decisions;
      if (!alike(answer, expected)) wrong_ = "expected:\n" + to_text(expected) + "got:\n" + to_text(answer);
    }
    past_.records.back().decisions = answer;
    obey(event, answer);
    if (wrong_.empty() && policy_->version() != version_) wrong_ = "version() is not the last step's";
    report_noise(event, answer);
    if (!wrong_.empty()) tell();
  }

  // The workers do as they are told: what cannot be obeyed is wrong.
  void obey(const SyncEvent& event, const std::vector<Decision>& answer) {
    if (event.kind == SyncEvent::Kind::join) players_[event.worker] = {.live = true};
    if (event.kind == SyncEvent::Kind::leave) players_[event.worker].live = false;
    if (event.kind == SyncEvent::Kind::push) players_[event.worker].computing = false;
    int uses = 0;
    for (const Decision& decision : answer) {
      if (decision.kind == Decision::Kind::release) {
        Player& player = players_.at(decision.worker);
        if (!player.live || player.computing) wrong_ = "released twice, or not there";
        if (decision.version != version_) wrong_ = "released with what is not the newest version";
        player = {.live = true, .computing = true, .version = decision.version};
      } else if (decision.kind == Decision::Kind::step) {
        if (decision.version != ++version_) wrong_ = "a step leaves versions out";
      } else {
        ++uses;
        if (event.kind != SyncEvent::Kind::push || decision.worker != event.worker) wrong_ = "of whose gradient?";
        if (decision.kind == Decision::Kind::apply && decision.version != ++version_) wrong_ = "versions left out";
      }
    }
    if (uses != (event.kind == SyncEvent::Kind::push ? 1 : 0)) wrong_ = "a gradient is lost or used twice";

    std::vector<int> waiting;
    int live = 0;
    for (int id = 0; id < ids_; ++id) {
      if (players_[id].live) ++live;
      if (players_[id].live && !players_[id].computing) waiting.push_back(id);
    }
    if (policy_->live() != live || policy_->waiting() != waiting) wrong_ = "live() or waiting() is not what was told";
    const bool all_wait = live > 0 && live == static_cast<int>(waiting.size());
    if (all_wait && past_.to_come(settings_.workers) == 0) wrong_ = "all wait for ever";
  }

  // Any numbers will do for how gradients differ, now and then such that a gradient is not finite.
  void report_noise(const SyncEvent& event, const std::vector<Decision>& answer) {
    if (!policy_->wants_noise() || answer.empty() || answer.front().kind != Decision::Kind::accumulate) return;
    GradientNoise noise;
    for (const SyncEvent& push : past_.accumulated(event.version)) {
      const double b = static_cast<double>(push.samples);
      noise.samples += b;
      noise.samples_squared += b * b;
    }
    noise.mean_norm2 = dice_.percent(1) ? std::numeric_limits<double>::infinity() : dice_.uniform();
    noise.spread = dice_.uniform() * noise.samples;
    reports_.push_back(paceline::noise(event.version, noise));
  }

  // Numbers that are computed in another order may differ in their last bits.
  static bool alike(const std::vector<Decision>& some, const std::vector<Decision>& others) {
    const auto near = [](double a, double b) { return std::abs(a - b) <= 1e-12 * std::max(std::abs(a), std::abs(b)); };
    return std::ranges::equal(some, others, [&](const Decision& a, const Decision& b) {
      return a.kind == b.kind && a.worker == b.worker && a.version == b.version && a.samples == b.samples &&
             near(a.rate, b.rate) && near(a.factor, b.factor);
    });
  }

  void tell() {
    static constexpr std::array kNames = {"join", "leave", "push", "noise", "tick"};
    for (const SyncRecord& record : past_.records) {
      const SyncEvent& e = record.event;
      wrong_ += std::string("\n") + kNames.at(static_cast<size_t>(e.kind)) + " of worker " + std::to_string(e.worker) +
                ", version " + std::to_string(e.version) + ", samples " + std::to_string(e.samples) + "\n" +
                to_text(record.decisions);
    }
  }

  const OrderPlan& plan_;
  Dice dice_;
  int ids_ = 0;
  SyncSettings settings_;
  std::unique_ptr<Policy> policy_;
  std::array<Player, kMostTestWorkers> players_;
  uint64_t version_ = 0;
  int64_t time_ns_ = 1'000'000;
  std::deque<SyncEvent> reports_;
  SyncHistory past_;
  std::string wrong_;
};

// Sanitizers take ten times as long: a tenth of the orders will do.
#ifdef PACELINE_SANITIZED
inline constexpr int kFewerOrders = 10;
#else
inline constexpr int kFewerOrders = 1;
#endif

inline void play_orders(const OrderPlan& plan) {
  for (int seed = 0; seed < plan.orders / kFewerOrders && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("order " + std::to_string(seed));
    OrderPlayer(plan, static_cast<uint64_t>(seed)).play();
  }
}

}  // namespace paceline
