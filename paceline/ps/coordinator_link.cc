#include "paceline/ps/coordinator_link.h"

#include "paceline/rendezvous/quiet_thread.h"

namespace paceline {
namespace {

constexpr int64_t kDayMs = 86'400'000;  // a coordinator may have nothing to say; that it is there, the transport knows

}  // namespace

CoordinatorLink::CoordinatorLink(const ServerOptions& options, std::function<void()> over,
                                 std::function<void(std::exception_ptr)> failed)
    : options_(options), over_(std::move(over)), failed_(std::move(failed)) {}

CoordinatorLink::~CoordinatorLink() { stop(); }

void CoordinatorLink::start(ShardService& shard) {
  shard_ = &shard;
  thread_ = start_quiet_thread([this] {
    try {
      run();
    } catch (...) {
      failed_(std::current_exception());
    }
  });
}

void CoordinatorLink::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    if (connection_) connection_->close("this shard stops");
    stopping_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void CoordinatorLink::run() {
  BackOff back_off;
  CallsBrokenOff broken_off;
  bool told = false;
  uint64_t history = 0;
  for (;;) {
    try {
      const HelloHead hello = {.role = PeerRole::shard,
                               .id = options_.shard,
                               .executed = shard_->executed(),
                               .fingerprint = options_.map.fingerprint(),
                               .run = options_.run,
                               .history = history,
                               .settings = options_.settings};
      std::shared_ptr<ClientConnection> connection = call_server(options_.coordinator_address, 0, options_.map.shards(),
                                                                 options_.security, options_.limits, hello, history);
      {
        const std::lock_guard lock(mutex_);
        if (stopped_) return;
        connection_ = connection;
      }
      back_off = {};
      broken_off = {};
      told = false;
      shard_->tell_again();
      serve(*connection);
    } catch (const RefusedError&) {
      throw;
    } catch (const PeerError& failure) {
      if (std::string(failure.what()).find(kRunOver) != std::string::npos) {
        over_();
        return;
      }
      broken_off.count(failure);
      if (options_.log != nullptr && !told) {
        options_.log->warning("shard {}: no coordinator at {} ({}); it is called again and again", options_.shard,
                              options_.coordinator_address, failure.what());
      }
      told = true;
    }
    std::shared_ptr<ClientConnection> broken;
    std::unique_lock lock(mutex_);
    broken = std::move(connection_);
    if (stopping_.wait_for(lock, std::chrono::milliseconds(back_off.next_ms()), [&] { return stopped_; })) {
      lock.unlock();  // closing takes its time
      return;
    }
    lock.unlock();
  }
}

void CoordinatorLink::serve(ClientConnection& connection) {
  for (;;) {
    const Message message = connection.receive(kDayMs);
    const Head head = head_from(message.head);
    if (const auto* command = std::get_if<CommandHead>(&head)) {
      shard_->command(command->command);
    } else if (const auto* whole = std::get_if<WholeNormsHead>(&head)) {
      std::vector<SquaredNorms> norms = norms_from(message.body);
      if (norms.size() != options_.map.tensors().size()) throw PeerError("norms of another model");
      shard_->whole_norms(whole->index, std::move(norms));
    } else if (const auto* forget = std::get_if<ForgetHead>(&head)) {
      shard_->forget(forget->worker);
    } else {
      throw PeerError("the coordinator sent what is not for shards");
    }
  }
}

void CoordinatorLink::staged(int worker, const PushNews& push) {
  send({to_wire(Head(StagedHead{.worker = worker, .push = push})), {}});
}

void CoordinatorLink::reported(const ShardReport& report) {
  if (report.index > 0) send({to_wire(Head(ReportHead{.report = report, .load = shard_->load()})), {}});
}

void CoordinatorLink::norms(uint64_t index, std::vector<SquaredNorms> norms) {
  send({to_wire(Head(NormsHead{.index = index})), body_of(std::move(norms))});
}

void CoordinatorLink::missing(int worker, uint64_t sequence) {
  send({to_wire(Head(MissingHead{.worker = worker, .sequence = sequence})), {}});
}

void CoordinatorLink::send(Message message) {
  std::shared_ptr<ClientConnection> connection;
  {
    const std::lock_guard lock(mutex_);
    connection = connection_;
  }
  if (!connection) return;
  try {
    connection->send(std::move(message));
  } catch (const PeerError&) {
    // The thread notices, calls again, and tells again.
  }
}

}  // namespace paceline
