#include "paceline/ps/observer.h"

#include <fmt/ranges.h>

#include "paceline/core/check.h"
#include "paceline/core/clock.h"
#include "paceline/ps/server_call.h"

namespace paceline {

class ServerObserver::Session {
 public:
  explicit Session(WorkerOptions options) : options_(std::move(options)) {
    CHECK_EQ(options_.servers.size(), static_cast<size_t>(options_.map.shards()));
    hello_ = {.role = PeerRole::observer,
              .id = options_.worker,
              .fingerprint = options_.map.fingerprint(),
              .run = options_.run,
              .settings = options_.settings};
    histories_.resize(options_.servers.size());
  }

  ~Session() {
    if (lines_.empty()) return;
    try {
      lines_[0]->send({to_wire(Head(LeaveHead{})), {}});
      lines_[0]->close("the observer has seen enough");
    } catch (const PeerError&) {
      // Nobody waits for it there.
    }
  }

  ServerSnapshot observe(const Wish& wish) {
    const int64_t began_ns = SteadyClock().now_ns();
    BackOff back_off;
    CallsBrokenOff broken_off;
    for (;;) {
      try {
        return try_once(wish);
      } catch (const RefusedError&) {
        throw;
      } catch (const PeerError& failure) {
        lines_.clear();
        broken_off.count(failure);
        const double waited_s = seconds_between(began_ns, SteadyClock().now_ns());
        if (waited_s * 1e3 > static_cast<double>(options_.patience_ms)) {
          throw PeerError(fmt::format("the servers ({}) have not answered for {:.1f} s: {}; do all of them run?",
                                      fmt::join(options_.servers, ", "), waited_s, failure.what()));
        }
        if (!sleep_unless(options_.stop, back_off.next_ms())) throw;
      }
    }
  }

 private:
  ServerSnapshot try_once(const Wish& wish) {
    for (int shard = static_cast<int>(lines_.size()); shard < options_.map.shards(); ++shard) {
      uint64_t& history = histories_[static_cast<size_t>(shard)];
      hello_.history = history;
      lines_.push_back(call_server(options_.servers[static_cast<size_t>(shard)], shard, options_.map.shards(),
                                   options_.security, options_.limits, hello_, history));
    }
    lines_[0]->send({to_wire(Head(ObserveHead{.weights = wish.weights, .states = wish.states})), {}});
    ServerSnapshot snapshot;
    NewsHead news;
    bool first = true;
    uint64_t index = 0;
    const bool parts = wish.weights || wish.states;
    for (int shard = 0; shard < (parts ? options_.map.shards() : 1); ++shard) {
      bool whole = !parts, told = shard > 0;
      while (!whole || !told) {
        const Message message = lines_[static_cast<size_t>(shard)]->receive(options_.patience_ms);
        const Head head = head_from(message.head);
        if (const auto* said = std::get_if<NewsHead>(&head); said && shard == 0) {
          news = *said;
          snapshot.leases.resize(message.body.size());
          message.body.copy_to(std::as_writable_bytes(std::span(snapshot.leases)));
          told = true;
        } else if (std::holds_alternative<StatisticsHead>(head)) {
          auto& values = snapshot.statistics.emplace_back(message.body.size() / sizeof(float));
          message.body.copy_to(std::as_writable_bytes(std::span(values)));
        } else if (const auto* part = std::get_if<SnapshotHead>(&head)) {
          if (first) index = part->index;
          first = false;
          if (part->index != index) throw PeerError(fmt::format("shard {} answered another question", shard));
          keep(*part, message.body, shard, snapshot);
          whole = part->last;
        } else {
          throw PeerError(fmt::format("shard {} sent what is not for observers", shard));
        }
      }
    }
    if (news.index != index) throw PeerError("shard 0 answered another question");
    snapshot.used_samples = news.used_samples;
    snapshot.version = news.steps;
    snapshot.first_update = news.first_update;
    snapshot.over = news.over;
    snapshot.metrics = news.metrics;
    return snapshot;
  }

  void keep(const SnapshotHead& part, const Body& body, int shard, ServerSnapshot& snapshot) const {
    const uint64_t count = options_.map.count(shard);
    if (part.offset > count || part.count > count - part.offset || body.size() != part.count * sizeof(float)) {
      throw PeerError(fmt::format("shard {} sent elements that it does not have", shard));
    }
    snapshot.steps = part.steps;
    snapshot.rate = part.rate;
    std::vector<float>& values = snapshot.states[part.state];
    values.resize(options_.map.total());
    const auto into = std::span(values).subspan(options_.map.first(shard) + part.offset, part.count);
    body.copy_to(std::as_writable_bytes(into));
  }

  const WorkerOptions options_;
  HelloHead hello_;
  std::vector<uint64_t> histories_;  // of each server's state, which must not change
  std::vector<std::unique_ptr<ClientConnection>> lines_;
};

ServerObserver::ServerObserver(WorkerOptions options) : session_(std::make_unique<Session>(std::move(options))) {}
ServerObserver::~ServerObserver() = default;
ServerSnapshot ServerObserver::observe(const Wish& wish) { return session_->observe(wish); }

}  // namespace paceline
