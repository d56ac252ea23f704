#include "paceline/ps/server.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <unordered_map>

#include "paceline/core/check.h"
#include "paceline/core/file.h"
#include "paceline/core/private_folder.h"
#include "paceline/ps/coordinator_link.h"
#include "paceline/ps/coordinator_service.h"
#include "paceline/ps/observer_list.h"
#include "paceline/ps/refusal_log.h"
#include "paceline/ps/server_call.h"
#include "paceline/ps/shard_service.h"
#include "paceline/ps/state_names.h"
#include "paceline/rendezvous/quiet_thread.h"

namespace paceline {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr uint64_t kSmallShard = 65'536;  // elements: a thread to hand them to would take longer than the work
constexpr milliseconds kTick(200);
constexpr milliseconds kFarewell(5'000);   // what workers have to see that the run is over
constexpr milliseconds kLastLook(60'000);  // what observers have: one that waits for another shard calls again

ServerOptions checked(ServerOptions options) {
  CHECK_GE(options.shard, 0);
  CHECK_LT(options.shard, options.map.shards());
  CHECK_GE(options.segment_elements, 1u);
  CHECK_TRUE(options.shard == 0 || !options.coordinator_address.empty(), "shard {} knows no coordinator",
             options.shard);
  options.coordinator.shards = options.map.shards();
  if (options.state_folder.has_parent_path()) make_directories(options.state_folder.parent_path());
  make_private_folder(options.state_folder);
  // All of a shard's parameters wait for a worker at once (as one copy for all of them), for an observer its states,
  // too.
  options.limits.queued_bytes += 5 * sizeof(float) * options.map.count(options.shard);
  return options;
}

ServerIdentity identity_of(const ServerOptions& options) {
  return {.run = options.run,
          .fingerprint = options.map.fingerprint(),
          .mark = take_run_mark(options.state_folder, options.shard, options.settings,
                                options.restart ? options.restart->updates : 0),
          .shard = options.shard,
          .shards = options.map.shards()};
}

}  // namespace

class ParameterServer::Running : public ConnectionHandler {
 public:
  Running(ServerOptions options, std::span<const float> initial);
  ~Running() override;

  std::string address() const { return transport_->address(); }
  void wait(std::stop_token stop);
  std::string metrics();

  void opened(const std::shared_ptr<Connection>& connection) override;
  void received(const std::shared_ptr<Connection>& connection, Message message) override;
  void closed(const std::shared_ptr<Connection>& connection, const std::string& why) override;

 private:
  struct Caller {
    std::weak_ptr<Connection> connection;
    steady_clock::time_point since = steady_clock::now();
    bool known = false, joined = false;
    HelloHead hello;
  };

  bool small() const { return options_.map.shards() == 1 && options_.map.total() <= kSmallShard; }
  void fail(std::exception_ptr failure);
  void hear(const std::shared_ptr<Connection>& connection, Caller& caller, const Message& message);
  void greet(const std::shared_ptr<Connection>& connection, Caller& caller, const Head& head);
  void from_worker(const std::shared_ptr<Connection>& connection, Caller& caller, const Head& head, const Body& body);
  void close_those_without_hello();
  void tick();  // again and again
  const ServerOptions options_;
  const ServerIdentity identity_;
  RefusalLog refusals_{options_.log};

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::exception_ptr failure_;
  bool over_ = false, stopping_ = false;
  std::unordered_map<const Connection*, std::shared_ptr<Caller>> callers_;
  ObserverList observers_;

  Strand strand_;                   // of commands
  std::optional<Strand> thoughts_;  // of the coordinator, where it has its own
  std::optional<CoordinatorService> coordinator_;
  std::optional<CoordinatorLink> link_;
  std::optional<ShardService> shard_;
  std::unique_ptr<TransportServer> transport_;
  std::thread ticker_;
};

ParameterServer::Running::Running(ServerOptions options, std::span<const float> initial)
    : options_(checked(std::move(options))),
      identity_(identity_of(options_)),
      observers_(options_.shard == 0 ? options_.state_folder / kObserversFolder : ""),
      strand_(small() ? Strand::Runs::callers : Strand::Runs::own_thread,
              [this](std::exception_ptr failure) { fail(std::move(failure)); }) {
  const auto failed = [this](std::exception_ptr failure) { fail(std::move(failure)); };
  if (options_.shard == 0) {
    if (!small()) thoughts_.emplace(Strand::Runs::own_thread, failed);
    coordinator_.emplace(options_, identity_.mark.first_update, thoughts_ ? *thoughts_ : strand_);
    shard_.emplace(options_, initial, strand_, *coordinator_);
    coordinator_->start(*shard_);
  } else {
    link_.emplace(
        options_,
        [this] {
          const std::lock_guard lock(mutex_);
          over_ = true;
          changed_.notify_all();
        },
        failed);
    shard_.emplace(options_, initial, strand_, *link_);
  }
  transport_ = serve(options_.listen, options_.security, options_.limits, *this, small() ? 1 : 2, options_.log);
  if (link_) link_->start(*shard_);
  ticker_ = start_quiet_thread([this] { tick(); });
}

ParameterServer::Running::~Running() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (ticker_.joinable()) ticker_.join();
  if (link_) link_->stop();
  transport_.reset();
  if (thoughts_) thoughts_->stop();
  strand_.stop();
}

void ParameterServer::Running::fail(std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(failure);
  changed_.notify_all();
}

void ParameterServer::Running::tick() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kTick, [&] { return stopping_; })) {
    lock.unlock();
    close_those_without_hello();
    if (coordinator_) coordinator_->tick();
    lock.lock();
    if (coordinator_ && coordinator_->over()) changed_.notify_all();
  }
}

// Connections are limited: whoever may connect but says nothing must not keep workers out.
void ParameterServer::Running::close_those_without_hello() {
  const auto began_before = steady_clock::now() - milliseconds(options_.limits.connect_timeout_ms);
  std::vector<std::shared_ptr<Connection>> silent;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, caller] : callers_) {
      if (caller->known || caller->since > began_before) continue;
      if (auto connection = caller->connection.lock()) silent.push_back(std::move(connection));
    }
  }
  for (const auto& connection : silent) connection->close("it did not say hello in time");
}

void ParameterServer::Running::wait(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  if (link_) {
    changed_.wait(lock, stop, [&] { return failure_ || over_; });
  } else {
    changed_.wait(lock, stop, [&] { return failure_ || coordinator_->over(); });
    if (!failure_ && !stop.stop_requested()) {
      const auto all_left = [&] { return failure_ || (coordinator_->everybody_left() && observers_.empty()); };
      if (!changed_.wait_for(lock, stop, kFarewell, all_left) && !observers_.empty())
        changed_.wait_for(lock, stop, kLastLook, [&] { return failure_ || observers_.empty(); });
      lock.unlock();
      coordinator_->end();
      lock.lock();
    }
  }
  if (failure_) std::rethrow_exception(failure_);
}

std::string ParameterServer::Running::metrics() {
  if (coordinator_) return coordinator_->metrics();
  const ShardLoad load = shard_->load();
  return nlohmann::json{{"shard", options_.shard},       {"executed", shard_->executed()},
                        {"version", shard_->version()},  {"bytes_in", load.bytes_in},
                        {"bytes_out", load.bytes_out},   {"busy_s", load.busy_s},
                        {"connected", shard_->workers()}}
      .dump();
}

void ParameterServer::Running::opened(const std::shared_ptr<Connection>& connection) {
  const auto caller = std::make_shared<Caller>();
  caller->connection = connection;
  const std::lock_guard lock(mutex_);
  callers_.emplace(connection.get(), caller);
}

void ParameterServer::Running::closed(const std::shared_ptr<Connection>& connection, const std::string&) {
  std::shared_ptr<Caller> caller;
  {
    const std::lock_guard lock(mutex_);
    const auto found = callers_.find(connection.get());
    if (found == callers_.end()) return;
    caller = found->second;
    callers_.erase(found);
    changed_.notify_all();
  }
  if (!caller->known) return;
  shard_->is_gone(caller->hello.role, caller->hello.id, connection.get());
  if (coordinator_) coordinator_->is_gone(caller->hello.role, caller->hello.id, connection);
}

void ParameterServer::Running::received(const std::shared_ptr<Connection>& connection, Message message) {
  std::shared_ptr<Caller> caller;
  {
    const std::lock_guard lock(mutex_);
    caller = callers_.at(connection.get());
  }
  try {
    hear(connection, *caller, message);
  } catch (const PeerError& failure) {
    connection->close(failure.what());  // before it is expelled, which would close it with another reason
    if (coordinator_ && caller->known && caller->hello.role == PeerRole::worker)
      coordinator_->expel(caller->hello.id, connection);
  }
}

void ParameterServer::Running::hear(const std::shared_ptr<Connection>& connection, Caller& caller,
                                    const Message& message) {
  Head head = head_from(message.head);
  if (!caller.known) return greet(connection, caller, head);
  const HelloHead& hello = caller.hello;
  if (hello.role == PeerRole::worker) return from_worker(connection, caller, head, message.body);
  if (hello.role == PeerRole::shard && coordinator_) {
    if (auto* norms = std::get_if<NormsHead>(&head)) {
      norms->norms = norms_from(message.body);
      if (norms->norms.size() != options_.map.tensors().size()) throw PeerError("norms of another model");
    }
    if (!std::holds_alternative<StagedHead>(head) && !std::holds_alternative<ReportHead>(head) &&
        !std::holds_alternative<NormsHead>(head) && !std::holds_alternative<MissingHead>(head)) {
      throw PeerError("shards send nothing of the kind");
    }
    return coordinator_->from_shard(hello.id, head);
  }
  if (std::holds_alternative<LeaveHead>(head) && hello.role == PeerRole::observer) {
    const std::lock_guard lock(mutex_);
    observers_.erase(hello.id);
    changed_.notify_all();
    return;
  }
  const auto* observe = std::get_if<ObserveHead>(&head);
  if (observe == nullptr || !coordinator_) throw PeerError("observers ask shard 0, and ask for nothing else");
  coordinator_->observe(hello.id, *observe, connection);
}

void ParameterServer::Running::greet(const std::shared_ptr<Connection>& connection, Caller& caller, const Head& head) {
  const auto* hello = std::get_if<HelloHead>(&head);
  if (hello == nullptr) throw PeerError("who calls says hello first");
  std::string refused = why_not_certified(*hello, connection->certified_as(), options_.security);
  if (refused.empty()) refused = why_not_welcome(*hello, identity_, shard_->version());
  if (!refused.empty()) {
    refusals_.add(connection->peer(), refused);
    return connection->close(kRefusal + refused);
  }
  if (hello->role == PeerRole::worker) shard_->worker_is_here(hello->id, hello->incarnation, connection);
  if (hello->role == PeerRole::observer) shard_->observer_is_here(hello->id, connection);
  {
    const std::lock_guard lock(mutex_);
    caller.hello = *hello;
    caller.known = true;
    if (hello->role == PeerRole::observer) observers_.insert(hello->id);
  }
  connection->send({to_wire(Head(WelcomeHead{.shard = options_.shard,
                                             .shards = options_.map.shards(),
                                             .version = shard_->version(),
                                             .history = identity_.mark.history})),
                    {}});
  if (hello->role == PeerRole::shard) coordinator_->shard_is_here(hello->id, hello->executed, connection);
}

void ParameterServer::Running::from_worker(const std::shared_ptr<Connection>& connection, Caller& caller,
                                           const Head& head, const Body& body) {
  const HelloHead& hello = caller.hello;
  if (const auto* push = std::get_if<PushHead>(&head)) {
    // A long push is a sign of life, too: heartbeats wait behind it.
    if (coordinator_ && !push->last) coordinator_->heartbeat(hello.id);
    return shard_->push(hello.id, connection.get(), *push, body);
  }
  if (!coordinator_) throw PeerError("workers send gradients to this shard, and nothing else");
  if (std::holds_alternative<HeartbeatHead>(head)) return coordinator_->heartbeat(hello.id);
  if (std::holds_alternative<JoinHead>(head)) {
    // Each join is a line in the journal and all parameters on their way.
    if (std::exchange(caller.joined, true)) throw PeerError("a worker joins once on a connection");
    return coordinator_->join(hello.id, hello.incarnation, connection);
  }
  if (std::holds_alternative<LeaveHead>(head)) return coordinator_->leave(hello.id, hello.incarnation);
  if (std::holds_alternative<StatisticsHead>(head)) return coordinator_->statistics(hello.id, body);
  throw PeerError("workers send nothing of the kind");
}

bool has_state(const std::filesystem::path& state_folder, int shard) {
  return std::filesystem::exists(state_folder / shard_file_name(shard));
}

void remove_state(const std::filesystem::path& state_folder, int shard) {
  std::error_code ignored;
  std::filesystem::remove(state_folder / shard_file_name(shard), ignored);
  std::filesystem::remove(state_folder / run_mark_name(shard), ignored);
  if (shard == 0) {
    std::filesystem::remove_all(state_folder / kJournalFolder, ignored);
    std::filesystem::remove_all(state_folder / kStatisticsFolder, ignored);
    std::filesystem::remove_all(state_folder / kObserversFolder, ignored);
    std::filesystem::remove(state_folder / kNormsFile, ignored);
  }
  std::filesystem::remove(state_folder, ignored);  // only where it is empty
}

void remove_left_state(const std::filesystem::path& state_folder, int shard) {
  const std::filesystem::path file = state_folder / shard_file_name(shard);
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  const bool held = descriptor >= 0 && ::flock(descriptor, LOCK_EX | LOCK_NB) != 0;
  if (!held) remove_state(state_folder, shard);
  if (descriptor >= 0) ::close(descriptor);
  if (held) throw FileError(fmt::format("{} is held by a server that is running; end it first", file.string()));
}

ParameterServer::ParameterServer(ServerOptions options, std::span<const float> initial)
    : running_(std::make_unique<Running>(std::move(options), initial)) {}
ParameterServer::~ParameterServer() = default;

std::string ParameterServer::address() const { return running_->address(); }
void ParameterServer::wait(std::stop_token stop) { running_->wait(stop); }
std::string ParameterServer::metrics() const { return running_->metrics(); }

}  // namespace paceline
