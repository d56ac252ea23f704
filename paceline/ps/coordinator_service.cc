#include "paceline/ps/coordinator_service.h"

#include <algorithm>
#include <future>
#include <nlohmann/json.hpp>
#include <utility>

#include "paceline/core/check.h"
#include "paceline/core/clock.h"
#include "paceline/ps/server_call.h"
#include "paceline/ps/state_names.h"

namespace paceline {
namespace {

constexpr size_t kMostStatisticsBytes = 16 << 20;
constexpr size_t kMostMetricsBytes = 32 * 1024;  // of a head

void send_or_not(const std::shared_ptr<Connection>& connection, Message message) {
  if (!connection) return;
  try {
    connection->send(std::move(message));
  } catch (const PeerError&) {
    // Whoever it was is gone; when it calls again it hears what it needs.
  }
}

}  // namespace

CoordinatorService::CoordinatorService(const ServerOptions& options, uint64_t first_update, Strand& strand)
    : options_(options),
      first_update_(first_update),
      strand_(strand),
      coordinator_(options.coordinator, builtin_policies()),
      journal_(options.state_folder / kJournalFolder),
      whole_norms_(options.state_folder / kNormsFile, options.map.shards()),
      statistics_(options.state_folder / kStatisticsFolder) {
  const JournalContents before = journal_.recover();
  if (before.state) coordinator_.load(*before.state);
  for (const CoordinatorEvent& event : before.events) coordinator_.replay(event);
  was_over_ = coordinator_.over();
  last_ns_ = coordinator_.latest_ns();
  offset_ns_ = last_ns_ + 1 - SteadyClock().now_ns();
}

// Goes on where the time of the last event was, also in another process on another day.
int64_t CoordinatorService::now_ns() {
  last_ns_ = std::max(last_ns_, SteadyClock().now_ns() + offset_ns_);
  return last_ns_;
}

void CoordinatorService::start(ShardService& own) {
  own_ = &own;
  strand_.post([this] {
    executed_[0] = own_->executed();
    for (const Command& command : coordinator_.since(own_->executed())) own_->command(command);
    own_->tell_again();
    deliver({});
  });
}

void CoordinatorService::join(int worker, uint64_t incarnation, Peer connection) {
  strand_.post([=, this] {
    const auto known = workers_.find(worker);
    if (known != workers_.end() && known->second.connection && known->second.connection != connection) {
      if (known->second.incarnation != incarnation) {
        connection->close(fmt::format("worker {} is there already, at {}; give every worker its own number", worker,
                                      known->second.connection->peer()));
        return;
      }
      known->second.connection->close("this worker has a new connection");
    }
    try {
      const Coordinator::Outgoing outgoing = coordinator_.join(worker, incarnation, now_ns());
      workers_[worker] = {incarnation, connection};
      forgotten_.erase(worker);
      deliver(outgoing);
    } catch (const PeerError& failure) {
      connection->close(std::string(kRefusal) + failure.what());
    }
  });
}

void CoordinatorService::leave(int worker, uint64_t incarnation) {
  strand_.post([=, this] {
    const auto known = workers_.find(worker);
    if (known == workers_.end() || known->second.incarnation != incarnation) return;
    workers_.erase(known);
    deliver(coordinator_.leave(worker, now_ns()));
  });
}

void CoordinatorService::expel(int worker, const Peer& connection) {
  strand_.post([=, this] {
    const auto known = workers_.find(worker);
    if (known == workers_.end() || known->second.connection != connection) return;  // it has called again since
    workers_.erase(known);
    statistics_.erase(worker);
    deliver(coordinator_.leave(worker, now_ns()));
  });
}

void CoordinatorService::statistics(int worker, const Body& body) {
  if (body.size() > kMostStatisticsBytes || body.size() % sizeof(float) != 0) {
    throw PeerError(fmt::format("{} bytes are no batch statistics", body.size()));
  }
  std::vector<float> values(body.size() / sizeof(float));
  body.copy_to(std::as_writable_bytes(std::span(values)));
  {
    const std::lock_guard lock(told_mutex_);
    // The newest takes the place of one that still waits: a worker cannot fill memory with them.
    if (!told_statistics_.insert_or_assign(worker, std::move(values)).second) return;
  }
  strand_.post([this, worker] { keep_statistics(worker); });
}

void CoordinatorService::keep_statistics(int worker) {
  std::vector<float> values;
  {
    const std::lock_guard lock(told_mutex_);
    values = std::move(told_statistics_.extract(worker).mapped());
  }
  if (!workers_.contains(worker)) return;
  const auto& kept = statistics_.all();
  if (!kept.contains(worker) && kept.size() >= static_cast<size_t>(options_.update.most_workers)) {
    const auto left = std::ranges::find_if(kept, [&](const auto& each) { return !workers_.contains(each.first); });
    if (left == kept.end()) return;
    statistics_.erase(left->first);
  }
  statistics_.set(worker, std::move(values));
}

void CoordinatorService::observe(int observer, const ObserveHead& wish, Peer connection) {
  strand_.post([=, this] { answer(observer, wish, connection); });
}

void CoordinatorService::answer(int observer, const ObserveHead& wish, const Peer& connection) {
  if (wish.states && coordinator_.counts().round_gradients() > 0) {
    // Gradients that wait for their step are no state: a checkpoint now would lose them, though their samples are used.
    until_step_[observer] = [=, this] { answer(observer, wish, connection); };
    return;
  }
  Coordinator::Outgoing outgoing;
  if (wish.weights || wish.states) {
    outgoing = coordinator_.observe(observer_place(observer, wish.states), now_ns());
    CHECK_TRUE(!outgoing.commands.empty(), "an observer gets no release");
  }
  NewsHead news = {.index = outgoing.commands.empty() ? 0 : outgoing.commands.back().index,
                   .used_samples = coordinator_.leases().used_samples(),
                   .steps = coordinator_.policy().version(),
                   .first_update = first_update_,
                   .over = coordinator_.over()};
  for (const MetricsOf detail : {MetricsOf::workers, MetricsOf::shards, MetricsOf::run}) {
    news.metrics = metrics_text(detail);
    if (news.metrics.size() <= kMostMetricsBytes) break;
  }
  deliver(outgoing);
  for (const auto& [worker, values] : statistics_.all()) {
    const auto kept = std::make_shared<std::vector<float>>(values);
    send_or_not(connection, {to_wire(Head(StatisticsHead{})), Body(std::as_bytes(std::span(*kept)), kept)});
  }
  const auto leases = std::make_shared<std::string>(wish.states ? coordinator_.leases().save() : "");
  send_or_not(connection, {to_wire(Head(news)), Body(std::as_bytes(std::span(*leases)), leases)});
}

void CoordinatorService::shard_is_here(int shard, uint64_t executed, Peer connection) {
  strand_.post([=, this] {
    std::vector<Command> commands;
    try {
      commands = coordinator_.since(executed);
    } catch (const PeerError& failure) {
      return connection->close(std::string(kRefusal) + failure.what());
    }
    if (shards_[shard]) shards_[shard]->close("this shard has a new connection");
    shards_[shard] = connection;
    executed_[shard] = executed;
    for (const Command& command : commands) {
      send_or_not(connection, {to_wire(Head(CommandHead{command})), {}});
    }
    for (const int worker : forgotten_) send_or_not(connection, {to_wire(Head(ForgetHead{worker})), {}});
  });
}

void CoordinatorService::from_shard(int shard, Head head) {
  strand_.post([this, shard, head = std::move(head)] { shard_news(shard, head); });
}

void CoordinatorService::staged(int worker, const PushNews& push) { from_shard(0, StagedHead{worker, push}); }
void CoordinatorService::reported(const ShardReport& report) {
  if (report.index > 0) from_shard(0, ReportHead{.report = report});
}
void CoordinatorService::norms(uint64_t index, std::vector<SquaredNorms> norms) {
  from_shard(0, NormsHead{index, std::move(norms)});
}
void CoordinatorService::missing(int worker, uint64_t sequence) { from_shard(0, MissingHead{worker, sequence}); }

void CoordinatorService::shard_news(int shard, const Head& head) {
  if (const auto* staged = std::get_if<StagedHead>(&head)) {
    try {
      deliver(coordinator_.staged(shard, staged->worker, staged->push, now_ns()));
    } catch (const PeerError& failure) {  // it is the worker who pushed what cannot be, not the shard
      const auto known = workers_.find(staged->worker);
      if (known != workers_.end() && known->second.connection) known->second.connection->close(failure.what());
      if (options_.log != nullptr) options_.log->warning("a push of worker {}: {}", staged->worker, failure.what());
    }
  } else if (const auto* report = std::get_if<ReportHead>(&head)) {
    try {
      deliver(coordinator_.reported(shard, report->report, now_ns()));
      executed_[shard] = std::max(executed_[shard], report->report.index);
      if (shard > 0) loads_[shard] = report->load;
    } catch (const PeerError& failure) {
      if (shard == 0) throw;
      if (shards_[shard]) shards_[shard]->close(std::string(kRefusal) + failure.what());
    }
  } else if (const auto* norms = std::get_if<NormsHead>(&head)) {
    sum_norms(shard, *norms);
  } else if (const auto* missing = std::get_if<MissingHead>(&head)) {
    expel_for_missing(shard, *missing);
  }
}

// The shard went on without the gradient. The worker begins anew: what it and the shard know of each other differs.
void CoordinatorService::expel_for_missing(int shard, const MissingHead& missing) {
  const std::string what = fmt::format("push {} of worker {} is not on shard {} any more and was left out",
                                       missing.sequence, missing.worker, shard);
  if (options_.log != nullptr) options_.log->warning("{}; the worker has to join again", what);
  const auto known = workers_.find(missing.worker);
  if (known != workers_.end()) {
    if (known->second.connection) known->second.connection->close(what);
    workers_.erase(known);
  }
  statistics_.erase(missing.worker);
  deliver(coordinator_.leave(missing.worker, now_ns()));
}

void CoordinatorService::sum_norms(int shard, NormsHead head) {
  const uint64_t index = head.index;
  if (index > coordinator_.issued()) return;  // of no command of this run
  const bool again = index == whole_norms_.index();
  if (index < whole_norms_.index()) return;  // told again what is done
  if (!whole_norms_.add(shard, index, std::move(head.norms))) return;
  const Message whole = {to_wire(Head(WholeNormsHead{index})), body_of(whole_norms_.sum())};
  if (!again) {
    to_shards(whole);
  } else if (shard > 0) {
    send_or_not(shards_[shard], whole);
  }
  if (!again || shard == 0) own_->whole_norms(index, whole_norms_.sum());
}

void CoordinatorService::is_gone(PeerRole role, int id, Peer connection) {
  strand_.post([=, this] {
    if (role == PeerRole::shard && shards_[id] == connection) shards_[id].reset();
    const auto known = workers_.find(id);
    if (role == PeerRole::worker && known != workers_.end() && known->second.connection == connection) {
      known->second.connection.reset();  // it may come back until its lease runs out
    }
  });
}

void CoordinatorService::tick() {
  strand_.post([this] { deliver(coordinator_.tick(now_ns())); });
}

// A device without room for a snapshot is no reason to end: the journal has everything.
void CoordinatorService::snapshot() {
  try {
    journal_.snapshot(coordinator_.save());
    snapshot_at_ = options_.events_of_journal;
  } catch (const FileError& failure) {
    snapshot_at_ = journal_.appended() + options_.events_of_journal / 4;
    if (options_.log != nullptr) {
      options_.log->warning("{}; the journal of {} events goes on without a snapshot", failure.what(),
                            journal_.appended());
    }
  }
}

void CoordinatorService::deliver(const Coordinator::Outgoing& outgoing) {
  for (const CoordinatorEvent& event : outgoing.events) journal_.append(event);
  if (journal_.appended() >= snapshot_at_) snapshot();
  for (const Coordinator::Outgoing::Go& go : outgoing.go) send_go(go, outgoing.commands);
  for (const Command& command : outgoing.commands) {
    if (!shards_.empty()) to_shards({to_wire(Head(CommandHead{command})), {}});
    own_->command(command);
  }
  for (const int worker : outgoing.absent) {
    if (options_.log != nullptr) {
      options_.log->warning("worker {} has not come: the others begin without it", worker);
    }
  }
  for (const int worker : outgoing.gone) {
    forgotten_.insert(worker);
    to_shards({to_wire(Head(ForgetHead{worker})), {}});
    own_->forget(worker);
    const auto known = workers_.find(worker);
    if (known == workers_.end()) continue;  // it has left; its statistics are as good as any
    statistics_.erase(worker);
    if (options_.log != nullptr) {
      options_.log->warning("worker {} was silent for too long: others take over its samples", worker);
    }
    if (known->second.connection) known->second.connection->close("this worker was silent for too long");
    workers_.erase(known);
  }
  if (!until_step_.empty() && coordinator_.counts().round_gradients() == 0) {
    for (const auto& [observer, answer_now] : std::exchange(until_step_, {})) strand_.post(answer_now);
  }
  over_ = coordinator_.over();
  left_ = over_ && !was_over_ && workers_.empty();
}

void CoordinatorService::send_go(const Coordinator::Outgoing::Go& go, const std::vector<Command>& commands) {
  const auto known = workers_.find(go.worker);
  if (known == workers_.end()) return;
  GoHead head = {.over = !go.assignment};
  if (go.assignment) {
    head.assignment = *go.assignment;
    for (const Command& command : commands) {
      if (command.decision.kind == Decision::Kind::release && command.decision.worker == go.worker) {
        head.index = command.index;
      }
    }
  }
  send_or_not(known->second.connection, {to_wire(Head(head)), {}});
}

void CoordinatorService::to_shards(const Message& message) {
  for (const auto& [shard, connection] : shards_) send_or_not(connection, message);
}

std::string CoordinatorService::metrics() {
  auto text = std::make_shared<std::promise<std::string>>();
  std::future<std::string> answer = text->get_future();
  strand_.post([this, text = std::move(text)] { text->set_value(metrics_text(MetricsOf::workers)); });
  try {
    return answer.get();
  } catch (const std::future_error&) {  // the strand has ended
    return "{}";
  }
}

std::string CoordinatorService::metrics_text(MetricsOf detail) const {
  using nlohmann::json;
  const SyncCounts& counts = coordinator_.counts();
  const auto of = [](const SyncCounts::OfWorker& worker) {
    return json{{"accumulated", worker.accumulated},
                {"applied", worker.applied},
                {"merged", worker.merged},
                {"dropped", worker.dropped},
                {"exchanged", worker.exchanged}};
  };
  json text = {{"policy", coordinator_.policy().name()},
               {"version", coordinator_.policy().version()},
               {"k", coordinator_.policy().k()},
               {"live", coordinator_.policy().live()},
               {"connected_workers",
                std::ranges::count_if(workers_, [](const auto& known) { return known.second.connection != nullptr; })},
               {"used_samples", coordinator_.leases().used_samples()},
               {"over", coordinator_.over()},
               {"total", of(counts.total())},
               {"last_step_gradients", counts.last_step_gradients()},
               {"gap", counts.gap()},
               {"largest_gap", counts.largest_gap()}};
  for (const auto& [age, gradients] : counts.staleness()) text["staleness"][std::to_string(age)] = gradients;
  if (detail == MetricsOf::workers) {
    for (const auto& [worker, its] : counts.workers()) text["workers"][std::to_string(worker)] = of(its);
    text["connected"] = json::array();
    for (const auto& [worker, known] : workers_) {
      if (known.connection) text["connected"].push_back(worker);
    }
  }
  for (int shard = 0; detail != MetricsOf::run && shard < options_.map.shards(); ++shard) {
    json& its = text["shards"][static_cast<size_t>(shard)];
    const auto reported = executed_.find(shard);
    its["executed"] = reported == executed_.end() ? 0 : reported->second;
    if (shard > 0) its["connected"] = shards_.contains(shard) && shards_.at(shard) != nullptr;
    const auto told = loads_.find(shard);
    const ShardLoad load = shard == 0 ? own_->load() : told != loads_.end() ? told->second : ShardLoad{};
    its["bytes_in"] = load.bytes_in;
    its["bytes_out"] = load.bytes_out;
    its["busy_s"] = load.busy_s;
  }
  return text.dump();
}

void CoordinatorService::end() {
  auto done = std::make_shared<std::promise<void>>();
  std::future<void> ended = done->get_future();
  strand_.post([this, done = std::move(done)] {
    for (const auto& [shard, connection] : shards_) {
      if (connection) connection->close(kRunOver);
    }
    done->set_value();
  });
  ended.wait();  // also where the strand has ended, and the promise with it
}

}  // namespace paceline
