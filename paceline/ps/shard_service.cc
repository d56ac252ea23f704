#include "paceline/ps/shard_service.h"
#include "paceline/ps/state_names.h"

#include <algorithm>

#include "paceline/core/check.h"
#include "paceline/core/clock.h"

namespace paceline {
namespace {

using Kind = Decision::Kind;
constexpr size_t kReportsKept = 4'096;

std::span<const std::byte> bytes_of(std::span<const float> values) { return std::as_bytes(values); }

// To a connection that may be gone: then whoever was there calls again.
bool send_or_not(Connection& connection, Message message) {
  try {
    connection.send(std::move(message));
    return true;
  } catch (const PeerError&) {
    return false;
  }
}

}  // namespace

int observer_place(int observer, bool states) { return Coordinator::kFirstObserver + 2 * observer + (states ? 1 : 0); }

ShardService::ShardService(const ServerOptions& options, std::span<const float> initial, Strand& strand,
                           ShardUplink& uplink)
    : options_(options),
      strand_(strand),
      uplink_(uplink),
      shard_(options.state_folder / shard_file_name(options.shard), options.map, options.shard, options.update,
             initial),
      intake_(shard_, options.codec),
      queued_(shard_.executed()),
      executed_(shard_.executed()),
      version_(shard_.version()) {
  if (options.restart && shard_.executed() == 0 && shard_.counters().steps == 0) restart(*options.restart);
  reports_.push_back(shard_.last_report());
}

// Versions and commands count from 0 again; the optimizer's steps go on.
void ShardService::restart(const ServerRestart& from) {
  for (const Shard::State& state : shard_.states()) {
    if (state.name == "weights") continue;  // the shard was made with them
    const auto found = from.states.find(state.name);
    if (found == from.states.end() || found->second.size() != state.values.size()) {
      throw DataError(
          fmt::format("the checkpoint has no '{}' of {} elements for shard {}: was it written with another "
                      "optimizer or model?",
                      state.name, state.values.size(), options_.shard));
    }
    std::ranges::copy(found->second, state.values.begin());
  }
  shard_.restore({.steps = from.steps, .rate = from.rate});
}

void ShardService::worker_is_here(int worker, uint64_t incarnation, const std::shared_ptr<Connection>& connection) {
  intake_.sit_down(worker, incarnation, connection);
}

void ShardService::observer_is_here(int observer, const std::shared_ptr<Connection>& connection) {
  std::shared_ptr<Connection> before;
  {
    const std::lock_guard lock(observers_mutex_);
    before = std::exchange(observers_[observer], connection);
  }
  if (before) before->close("this observer has a new connection");
}

void ShardService::is_gone(PeerRole role, int id, const Connection* connection) {
  if (role == PeerRole::worker) intake_.stand_up(id, connection);
  if (role != PeerRole::observer) return;
  const std::lock_guard lock(observers_mutex_);
  const auto found = observers_.find(id);
  if (found != observers_.end() && found->second.get() == connection) observers_.erase(found);
}

void ShardService::push(int worker, const Connection* connection, const PushHead& head, const Body& body) {
  bytes_in_ += body.size();
  if (const auto whole = intake_.take(worker, connection, head, body)) uplink_.staged(worker, *whole);
}

void ShardService::command(const Command& command) {
  strand_.post([this, command] {
    if (command.index <= queued_) return;
    CHECK_EQ(command.index, queued_ + 1);
    queued_ = command.index;
    queue_.emplace_back(command);
    carry_on();
  });
}

void ShardService::forget(int worker) {
  strand_.post([this, worker] {
    queue_.emplace_back(Forget{worker});
    carry_on();
  });
}

void ShardService::whole_norms(uint64_t index, std::vector<SquaredNorms> norms) {
  strand_.post([this, index, norms = std::move(norms)] {
    whole_index_ = index;
    whole_ = norms;
    carry_on();
  });
}

void ShardService::tell_again() {
  strand_.post([this] {
    for (const ShardReport& report : reports_) uplink_.reported(report);
    for (const PushIntake::Whole& whole : intake_.whole()) uplink_.staged(whole.worker, whole.push);
    norms_told_ = 0;
    carry_on();
  });
}

void ShardService::carry_on() {
  while (!queue_.empty()) {
    if (const auto* forget = std::get_if<Forget>(&queue_.front())) {
      exchanged_.erase(forget->worker);
      intake_.forget(forget->worker);
    } else if (!carry_out(std::get<Command>(queue_.front()))) {
      return;
    }
    queue_.pop_front();
  }
}

bool ShardService::carry_out(const Command& command) {
  const Decision& decision = command.decision;
  const SteadyClock clock;
  const int64_t began_ns = clock.now_ns();
  const bool there = shard_.has_gradients(command);
  const bool wants_norms = is_step(decision.kind) && options_.update.optimizer == "lars" && options_.map.shards() > 1;
  if (wants_norms && whole_index_ != command.index) {
    if (norms_told_ != command.index) {
      norms_told_ = command.index;
      uplink_.norms(command.index,
                    there ? shard_.norms(command) : std::vector<SquaredNorms>(options_.map.tensors().size()));
      busy_ns_ += clock.now_ns() - began_ns;
    }
    return false;
  }
  // One worker, or a journal that is newer than this file, must not end the server for good.
  if (!there && decision.worker >= 0) uplink_.missing(decision.worker, command.sequence);
  const ShardReport report = !there        ? shard_.leave_out(command)
                             : wants_norms ? shard_.execute(command, whole_)
                                           : shard_.execute(command);
  if (decision.kind == Kind::exchange && there) exchanged_[decision.worker] = intake_.pushed_by(decision.worker);
  if (decision.kind == Kind::exchange && !there) exchanged_.erase(decision.worker);
  executed_ = command.index;
  version_ = shard_.version();
  reports_.push_back(report);
  if (reports_.size() > kReportsKept) reports_.pop_front();
  if (decision.kind == Kind::release) {
    release(command);
  } else if (decision.kind != Kind::accumulate && decision.kind != Kind::drop) {
    newest_.reset();
  }
  busy_ns_ += clock.now_ns() - began_ns;
  uplink_.reported(report);
  return true;
}

void ShardService::release(const Command& command) {
  const int worker = command.decision.worker;
  if (worker >= Coordinator::kFirstObserver) {
    send_snapshot(command);
  } else if (const PushIntake::Target target = intake_.release(worker, command.sequence); target.connection) {
    send_parameters(command, target);
  }
}

std::shared_ptr<const std::vector<float>> ShardService::newest() {
  if (!newest_) {
    const SharedCopies::Copy copy = copies_.make(shard_.count());
    shard_.read(0, *copy);
    newest_ = copy;
  }
  return newest_;
}

void ShardService::send_parameters(const Command& command, const PushIntake::Target& target) {
  const int worker = command.decision.worker;
  std::shared_ptr<const std::vector<float>> values;
  const auto exchanged = exchanged_.find(worker);
  if (exchanged != exchanged_.end() && exchanged->second == target.incarnation) {
    const SharedCopies::Copy own = copies_.make(shard_.count());
    shard_.read_exchanged(worker, 0, *own);
    values = own;
  } else {
    values = newest();
  }
  ParametersHead head = {.version = command.decision.version, .index = command.index};
  do {
    head.count = std::min(options_.segment_elements, values->size() - head.offset);
    head.last = head.offset + head.count == values->size();
    const auto segment = std::span(*values).subspan(head.offset, head.count);
    if (!send_or_not(*target.connection, {to_wire(Head(head)), Body(bytes_of(segment), values)})) return;
    bytes_out_ += segment.size_bytes();
    head.offset += head.count;
  } while (!head.last);
}

void ShardService::send_snapshot(const Command& command) {
  const int place = command.decision.worker - Coordinator::kFirstObserver;
  std::shared_ptr<Connection> connection;
  {
    const std::lock_guard lock(observers_mutex_);
    const auto found = observers_.find(place / 2);
    if (found == observers_.end()) return;
    connection = found->second;
  }
  const bool all = place % 2 == 1;
  std::vector<Shard::State> states = shard_.states();
  if (!all) states.resize(1);  // the weights
  for (const Shard::State& state : states) {
    const SharedCopies::Copy copy = copies_.make(state.values.size());
    std::ranges::copy(state.values, copy->begin());
    SnapshotHead head = {.version = shard_.version(),
                         .index = command.index,
                         .steps = shard_.counters().steps,
                         .rate = shard_.counters().rate,
                         .state = state.name};
    do {
      head.count = std::min(options_.segment_elements, copy->size() - head.offset);
      head.last = state.name == states.back().name && head.offset + head.count == copy->size();
      const auto segment = std::span<const float>(*copy).subspan(head.offset, head.count);
      if (!send_or_not(*connection, {to_wire(Head(head)), Body(bytes_of(segment), copy)})) return;
      bytes_out_ += segment.size_bytes();
      head.offset += head.count;
    } while (head.offset < copy->size());
  }
}

ShardLoad ShardService::load() const {
  return {.bytes_in = bytes_in_, .bytes_out = bytes_out_, .busy_s = static_cast<double>(busy_ns_) * 1e-9};
}

}  // namespace paceline
