// For tests: a coordinator among shards and workers that die, come back, are slow and start again, all of it in memory
// and drawn from a seed. It checks what every moment has to satisfy, and remembers what the end is judged by.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/random.h"
#include "paceline/ps/coordinator.h"

namespace paceline {

struct CoordinatorWorldOptions {
  CoordinatorOptions coordinator;
  uint64_t seed = 0;
  int worker_ids = 4;
  uint64_t calm_actions = 10;  // for each that makes trouble
};

class CoordinatorWorld {
 public:
  explicit CoordinatorWorld(CoordinatorWorldOptions options)
      : options_(std::move(options)),
        key_(options_.seed),
        coordinator_(make()),
        shards_(static_cast<size_t>(options_.coordinator.shards)),
        workers_(static_cast<size_t>(options_.worker_ids)) {}

  std::unique_ptr<Coordinator> make() const {
    return std::make_unique<Coordinator>(options_.coordinator, builtin_policies());
  }

  // So many things that may go wrong, then only what helps; whether the run came to its end.
  bool run(int troubled_actions) {
    for (int i = 0; i < troubled_actions && !coordinator_->over(); ++i) act(true);
    for (int i = 0; i < 200'000 && !coordinator_->over(); ++i) act(false);
    return coordinator_->over();
  }

  const Coordinator& coordinator() const { return *coordinator_; }
  const std::vector<CoordinatorEvent>& all_events() const { return all_events_; }
  const std::vector<Command>& log() const { return log_; }
  const std::map<uint64_t, int>& uses_of_shares() const { return uses_; }
  uint64_t pushes() const { return pushes_; }
  int restarts() const { return restarts_; }
  int deaths() const { return deaths_; }

 private:
  struct StagedPush {
    PushNews news;
    bool finished = false;
  };
  struct TestShard {
    uint64_t executed = 0;
    uint64_t version = 0;
    std::deque<Command> inbox;
    std::map<int, StagedPush> places;
    std::deque<std::pair<int, PushNews>> staged_news;
    std::deque<ShardReport> reports;
  };
  struct TestWorker {
    bool there = false;
    uint64_t incarnation = 0;
    std::optional<Assignment> assignment;
    uint64_t release_index = 0;  // of the newest release
    std::set<size_t> pushed_to;
  };

  uint64_t below(uint64_t bound) { return key_.below(drawn_++, bound); }

  static ShardReport report_of(const Command& command) {
    const double index = static_cast<double>(command.index);
    return {.index = command.index,
            .noise = {.samples = 4 + index, .samples_squared = 20, .mean_norm2 = 1 / index, .spread = 3}};
  }

  void act(bool trouble) {
    now_ns_ += static_cast<int64_t>(below(20));
    const size_t s = below(shards_.size());
    const int id = static_cast<int>(below(workers_.size()));
    TestWorker& worker = workers_[static_cast<size_t>(id)];
    const bool troubled = trouble && below(options_.calm_actions) == 0;
    switch (troubled ? 20 + below(10) : below(20)) {
      default:
        worker.there ? push_a_part(id, s) : start(id);
        break;
      case 8:
      case 9:
      case 10:
      case 11:
      case 12:
        execute(s);
        break;
      case 13:
      case 14:
      case 15:
        say_staged(s);
        break;
      case 16:
      case 17:
      case 18:
        say_report(s);
        break;
      case 19:
        for (size_t w = 0; w < workers_.size(); ++w)
          if (workers_[w].there) coordinator_->heard(static_cast<int>(w), now_ns_);
        send(coordinator_->tick(now_ns_));
        break;
      case 20:  // killed: nobody is told
      case 21:
        if (worker.there) die(id);
        break;
      case 22:
        if (worker.there) {
          die(id);
          send(coordinator_->leave(id, now_ns_));
        }
        break;
      case 23:  // killed, and started again before anybody noticed
        if (worker.there) die(id);
        start(id);
        break;
      case 24:  // its connection broke
        if (worker.there) {
          worker.assignment = std::nullopt;
          send(coordinator_->join(id, worker.incarnation, now_ns_));
        }
        break;
      case 25:
        restart_shard(s);
        break;
      case 26:
        restart_coordinator();
        break;
      case 27:
        snapshot_ = coordinator_->save();
        events_.clear();
        break;
      case 28:
        send(coordinator_->observe(Coordinator::kFirstObserver + id, now_ns_));
        break;
      case 29:
        now_ns_ += options_.coordinator.lease_ns / 2;
        break;
    }
  }

  void start(int id) {
    workers_[static_cast<size_t>(id)] = {.there = true, .incarnation = ++incarnations_};
    send(coordinator_->join(id, incarnations_, now_ns_));
  }
  void die(int id) {
    workers_[static_cast<size_t>(id)] = {};
    ++deaths_;
  }

  // One shard gets all of its part of the gradient, once all shards have sent the parameters.
  void push_a_part(int id, size_t s) {
    TestWorker& worker = workers_[static_cast<size_t>(id)];
    if (!worker.assignment || worker.pushed_to.contains(s)) return;
    for (const TestShard& shard : shards_)
      if (shard.executed < worker.release_index) return;
    const PushNews news = {.sequence = worker.assignment->sequence,
                           .version = worker.assignment->version,
                           .samples = worker.assignment->lease.range.size(),
                           .rate = 0.1};
    TestShard& shard = shards_[s];
    const auto place = shard.places.find(id);
    if (place != shard.places.end()) {
      ASSERT_LE(place->second.news.sequence, news.sequence);
      if (place->second.news.sequence == news.sequence) {  // sent again: it is here, and may be in use already
        ASSERT_EQ(place->second.news, news) << "a number was given twice";
        worker.pushed_to.insert(s);
        return;
      }
    }
    shard.places[id] = {.news = news};
    shard.staged_news.emplace_back(id, news);
    worker.pushed_to.insert(s);
  }

  void execute(size_t s) {
    TestShard& shard = shards_[s];
    if (shard.inbox.empty()) return;
    const Command command = shard.inbox.front();
    shard.inbox.pop_front();
    ASSERT_EQ(command.index, shard.executed + 1);
    ASSERT_EQ(command, log_.at(command.index - 1));
    using Kind = Decision::Kind;
    const Kind kind = command.decision.kind;
    if (kind != Kind::step && kind != Kind::release) {
      ASSERT_TRUE(shard.places.contains(command.decision.worker));
      StagedPush& place = shard.places.at(command.decision.worker);
      ASSERT_EQ(place.news.sequence, command.sequence);
      ASSERT_FALSE(place.finished);
      place.finished = true;
    }
    if (kind == Kind::step || kind == Kind::apply) {
      ASSERT_EQ(command.decision.version, ++shard.version);
    }
    if (kind == Kind::release) {
      ASSERT_EQ(command.decision.version, shard.version);
    }
    shard.executed = command.index;
    shard.reports.push_back(report_of(command));
  }

  void say_staged(size_t s) {
    TestShard& shard = shards_[s];
    if (shard.staged_news.empty()) return;
    const auto [id, news] = shard.staged_news.front();
    shard.staged_news.pop_front();
    send(coordinator_->staged(static_cast<int>(s), id, news, now_ns_));
    if (below(4) == 0) send(coordinator_->staged(static_cast<int>(s), id, news, now_ns_));  // twice is once
  }

  void say_report(size_t s) {
    TestShard& shard = shards_[s];
    for (uint64_t several = 1 + below(4); several > 0 && !shard.reports.empty(); --several) {
      const ShardReport report = shard.reports.front();
      shard.reports.pop_front();
      send(coordinator_->reported(static_cast<int>(s), report, now_ns_));
    }
  }

  // What was on its way is lost; it says again what it has.
  void restart_shard(size_t s) {
    TestShard& shard = shards_[s];
    shard.staged_news.clear();
    shard.reports.clear();
    if (shard.executed > 0) shard.reports.push_back(report_of(log_.at(shard.executed - 1)));
    for (const auto& [id, place] : shard.places)
      if (!place.finished) shard.staged_news.emplace_back(id, place.news);
    const std::vector<Command> since = coordinator_->since(shard.executed);
    shard.inbox.assign(since.begin(), since.end());
  }

  void restart_coordinator() {
    std::unique_ptr<Coordinator> again = make();
    if (snapshot_) again->load(*snapshot_);
    for (const CoordinatorEvent& event : events_) again->replay(event);
    uint64_t executed = log_.size();
    for (const TestShard& shard : shards_) executed = std::min(executed, shard.executed);
    ASSERT_EQ(again->since(executed), coordinator_->since(executed));
    expect_same(*again, *coordinator_);
    std::unique_ptr<Coordinator> loaded = make();
    loaded->load(coordinator_->save());
    ASSERT_EQ(loaded->save(), coordinator_->save());
    coordinator_ = std::move(again);
    ++restarts_;
    for (size_t s = 0; s < shards_.size(); ++s) restart_shard(s);
    for (size_t w = 0; w < workers_.size(); ++w)
      if (workers_[w].there) send(coordinator_->join(static_cast<int>(w), workers_[w].incarnation, now_ns_));
  }

  void send(const Coordinator::Outgoing& out) {
    for (const CoordinatorEvent& event : out.events) {
      events_.push_back(event);
      all_events_.push_back(event);
      if (event.kind != CoordinatorEvent::Kind::push) continue;
      ++pushes_;
      ++uses_[assigned_.at({event.worker, event.push.sequence})];
    }
    for (const Command& command : out.commands) {
      log_.push_back(command);
      ASSERT_EQ(command.index, log_.size());
      for (TestShard& shard : shards_) shard.inbox.push_back(command);
    }
    for (const Coordinator::Outgoing::Go& go : out.go) {
      TestWorker& worker = workers_[static_cast<size_t>(go.worker)];
      if (!go.assignment) {
        worker = {};
        continue;
      }
      assigned_[{go.worker, go.assignment->sequence}] = go.assignment->lease.number;
      uint64_t index = 0;
      for (const Command& command : out.commands)
        if (command.decision.kind == Decision::Kind::release && command.decision.worker == go.worker)
          index = command.index;
      ASSERT_GT(index, 0u) << "a worker goes without parameters";
      if (!worker.there) continue;  // it died; what was sent to it is lost
      const bool same = worker.assignment && *worker.assignment == *go.assignment;
      if (!same) worker.pushed_to.clear();
      worker.assignment = go.assignment;
      worker.release_index = index;
    }
    for (const int id : out.gone) {  // in order with the commands, which all of these have seen
      for (TestShard& shard : shards_) {
        const auto place = shard.places.find(id);
        if (place != shard.places.end() && (place->second.finished || !waits_for(shard, id))) shard.places.erase(place);
      }
      if (workers_[static_cast<size_t>(id)].there) workers_[static_cast<size_t>(id)] = {};
    }
  }

  static bool waits_for(const TestShard& shard, int id) {
    for (const Command& command : shard.inbox)
      if (command.sequence > 0 && command.decision.worker == id) return true;
    return false;
  }

 public:
  static void expect_same(const Coordinator& one, const Coordinator& other) {
    EXPECT_EQ(one.issued(), other.issued());
    EXPECT_EQ(one.workers(), other.workers());
    EXPECT_EQ(one.latest_ns(), other.latest_ns());
    EXPECT_EQ(one.policy().save(), other.policy().save());
    EXPECT_EQ(one.counts().save(), other.counts().save());
    EXPECT_EQ(one.leases().save(), other.leases().save());
  }

 private:
  CoordinatorWorldOptions options_;
  RandomKey key_;
  uint64_t drawn_ = 0;
  int64_t now_ns_ = 0;
  std::unique_ptr<Coordinator> coordinator_;
  std::vector<TestShard> shards_;
  std::vector<TestWorker> workers_;
  std::vector<CoordinatorEvent> events_;  // since the snapshot
  std::vector<CoordinatorEvent> all_events_;
  std::optional<std::string> snapshot_;
  std::vector<Command> log_;
  std::map<std::pair<int, uint64_t>, uint64_t> assigned_;  // (worker, sequence) -> number of the share
  std::map<uint64_t, int> uses_;                           // of each share
  uint64_t pushes_ = 0;
  uint64_t incarnations_ = 0;
  int restarts_ = 0, deaths_ = 0;
};

}  // namespace paceline
