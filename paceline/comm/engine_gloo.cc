#include "paceline/comm/engine_gloo.h"

#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/transport/tcp/unbound_buffer.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "paceline/comm/gloo_connections.h"

namespace paceline {
namespace {

using Milliseconds = std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// ---- messages -------------------------------------------------------------------------------------------------------

// A buffer that Gloo sends from or receives into. Gloo's own waits close all connections when they time out, and it has
// no way to ask whether a message is complete: so this waits and asks by itself.
class Message : public gloo::transport::tcp::UnboundBuffer {
 public:
  using UnboundBuffer::UnboundBuffer;

  // Throws what Gloo found. Once true, the message is over.
  bool finished_within(bool receiving, Milliseconds time) {
    int& completions = receiving ? recvCompletions_ : sendCompletions_;
    std::unique_lock lock(m_);
    const bool finished = (receiving ? recvCv_ : sendCv_).wait_for(lock, time, [&] {
      if (completions == 0) throwIfException();
      return completions > 0;
    });
    completions -= finished ? 1 : 0;
    return finished;
  }
};

// A message that is under way, or was: it is kept for the next one at the same place.
struct Flight {
  std::unique_ptr<Message> message;
  uint64_t ticket = 0;     // 0: nothing is under way
  uint64_t last_used = 0;  // the last ticket
  int peer = 0;
  bool receiving = false;

  bool is_at(TensorView data) const {
    return message != nullptr && message->ptr == data.data && message->size == data.bytes();
  }
};

// Flights by place and size of their buffers, so that messages which go out again and again allocate nothing here.
class FlightTable {
 public:
  // A flight for this buffer. REQUIRES: fewer than kFlights are under way.
  Flight& take(TensorView data, const std::shared_ptr<gloo::transport::tcp::Context>& context) {
    const size_t index = choose(data);
    Flight& flight = flights_[index];
    if (!flight.is_at(data)) flight.message = std::make_unique<Message>(context, data.data, data.bytes());
    flight.ticket = flight.last_used = ++serial_ * kFlights + index;
    return flight;
  }
  // The flight with that ticket; null when it is over.
  Flight* find(uint64_t ticket) {
    Flight& flight = flights_[ticket % kFlights];
    return flight.ticket == ticket ? &flight : nullptr;
  }
  // Gloo's thread touches none of their buffers any more.
  void drop_all() {
    for (Flight& flight : flights_) flight = Flight();
  }

 private:
  static constexpr size_t kFlights = 1024;
  static constexpr size_t kLooked = 4;  // places where a buffer may be found again

  size_t choose(TensorView data) const {
    const uint64_t code = (reinterpret_cast<uintptr_t>(data.data) ^ (data.bytes() << 20)) * 0x9e3779b97f4a7c15u;
    const size_t home = code >> 54;
    size_t best = kFlights;
    for (size_t i = 0; i < kFlights; ++i) {
      const size_t index = (home + i) % kFlights;
      const Flight& flight = flights_[index];
      if (flight.ticket == 0) {
        if (flight.is_at(data)) return index;
        if (best == kFlights || flight.last_used < flights_[best].last_used) best = index;
      }
      if (i + 1 >= kLooked && best != kFlights) return best;
    }
    CHECK_TRUE(false, "more than {} messages under way", kFlights);
  }

  std::vector<Flight> flights_ = std::vector<Flight>(kFlights);
  uint64_t serial_ = 0;
};

// Whether the alarm is raised within this time.
bool raised_within(Alarm& alarm, Milliseconds time) {
  std::mutex mutex;
  std::condition_variable changed;
  bool raised = false;
  const Alarm::Listener listener(alarm, [&] {
    const std::lock_guard lock(mutex);
    raised = true;
    changed.notify_all();
  });
  std::unique_lock lock(mutex);
  return changed.wait_for(lock, time, [&] { return raised; });
}

template <class T>
gloo::AllreduceOptions::Func library_reduction(ReduceOp op) {
  using Function = void (*)(void*, const void*, const void*, size_t);
  switch (op) {
    case ReduceOp::sum:
      return static_cast<Function>(&gloo::sum<T>);
    case ReduceOp::max:
      return static_cast<Function>(&gloo::max<T>);
    case ReduceOp::min:
      return static_cast<Function>(&gloo::min<T>);
  }
  return {};
}

// ---- the group ------------------------------------------------------------------------------------------------------

class GlooGroup final : public Group, private Work::Engine {
 public:
  // `connected_as[r]`: what rank r of this group is called by the connections, which all splits share.
  GlooGroup(GroupIdentity identity, std::shared_ptr<Monitor> monitor, std::shared_ptr<GlooConnections> connections,
            std::vector<int> connected_as)
      : Group(std::move(identity), std::move(monitor)),
        connections_(std::move(connections)),
        connected_as_(std::move(connected_as)) {}

  // Gloo's takes a context of exactly the ranks that take part, in their order.
  bool has_native_all_reduce() const override {
    return size() == connections_->size && std::ranges::is_sorted(connected_as_);
  }

  void native_all_reduce(TensorView data, ReduceOp op) override {
    CHECK_TRUE(has_native_all_reduce(), "no all-reduce of Gloo's over some of its ranks");
    if (data.count == 0) return;
    gloo::AllreduceOptions options(connections_);
    set_output(options, data, op);
    const uint64_t code = message_code();
    options.setTag(static_cast<uint32_t>(code ^ (code >> 32)));
    // The watchdog ends it before: Gloo cannot be told to wait longer for a rank at work.
    options.setTimeout(std::min(timeout() * kChoreTimeouts, Milliseconds(kLongAgoMs)) + grace());
    try {
      gloo::allreduce(options);
    } catch (const std::exception& error) {
      fail(fmt::format("{}: Gloo's all-reduce of {} bytes{} failed: {}", me(), data.bytes(), within(), text_of(error)));
    }
  }

 protected:
  Work start_send(TensorView data, int to) override { return start(data, to, false); }
  Work start_receive(TensorView data, int from) override { return start(data, from, true); }

  std::unique_ptr<Group> make_split(GroupIdentity identity, const std::vector<int>& members) override {
    std::vector<int> connected_as;
    for (const int member : members) connected_as.push_back(connected_as_[member]);
    return std::make_unique<GlooGroup>(std::move(identity), shared_monitor(), connections_, std::move(connected_as));
  }

 private:
  static constexpr Milliseconds kLook{20};  // how often a wait looks at the alarm

  Milliseconds timeout() const { return Milliseconds(monitor().timeout_ms()); }
  // How long a failure waits for the alarm: the watchdog hears of the cause a moment after the connections break.
  Milliseconds grace() const { return std::min(Milliseconds(1000), timeout() / 4); }

  // Later than the time-out, as the mpi engine: the watchdog, which can say why, goes first.
  bool out_of_patience(Milliseconds waited) const {
    return waited >= timeout() + std::min(2 * timeout(), Milliseconds(2000)) &&
           monitor().out_of_patience(waited.count());
  }

  Work start(TensorView data, int peer, bool receiving) {
    Flight& flight = flights_.take(data, connections_->transport());
    flight.peer = peer;
    flight.receiving = receiving;
    try {
      if (receiving) {
        flight.message->recv(connected_as_[peer], slot(data.bytes()), 0, data.bytes());
      } else {
        flight.message->send(connected_as_[peer], slot(data.bytes()), 0, data.bytes());
      }
    } catch (const std::exception& error) {
      fail(fmt::format("{} failed: {}", describe(flight), text_of(error)));
    }
    return {this, flight.ticket};
  }

  // Only messages of the same operation and size meet; those of one slot keep their order.
  uint64_t slot(size_t bytes) const {
    uint64_t code = message_code() ^ (bytes * 0xff51afd7ed558ccdu);
    code = (code ^ (code >> 32)) * 0x9e3779b97f4a7c15u;
    return code ^ (code >> 29);
  }

  void finish(uint64_t ticket) override {
    Flight* const flight = flights_.find(ticket);
    if (flight == nullptr) return;
    const auto begin = Clock::now();
    while (!finished_within(*flight, kLook)) {
      if (monitor().alarm().raised()) fail({});
      if (const std::string error = connection_error(*flight); !error.empty()) {
        if (finished_within(*flight, Milliseconds(0))) return;  // it came in before that
        fail(fmt::format("{} failed: {}", describe(*flight), error));
      }
      if (out_of_patience(std::chrono::duration_cast<Milliseconds>(Clock::now() - begin)))
        fail(fmt::format("{} did not finish in {:.1f} s", describe(*flight), 1e-3 * monitor().timeout_ms()));
    }
  }

  bool poll(uint64_t ticket) override {
    Flight* const flight = flights_.find(ticket);
    return flight == nullptr || finished_within(*flight, Milliseconds(0));
  }

  bool finished_within(Flight& flight, Milliseconds time) {
    try {
      if (!flight.message->finished_within(flight.receiving, time)) return false;
    } catch (const std::exception& error) {
      fail(fmt::format("{} failed: {}", describe(flight), text_of(error)));
    }
    flight.ticket = 0;
    return true;
  }

  // What broke the connection with the other end, or nothing.
  std::string connection_error(const Flight& flight) {
    try {
      connections_->require_intact(connected_as_[flight.peer], *flight.message);
    } catch (const std::exception& error) {
      return text_of(error);
    }
    return {};
  }

  void set_output(gloo::AllreduceOptions& options, TensorView data, ReduceOp op) {
    auto set = [&]<class T>(T*) {
      options.setOutput(static_cast<T*>(data.data), data.count);
      options.setReduceFunction(library_reduction<T>(op));
    };
    switch (data.dtype) {
      case DType::f32:
        return set(static_cast<float*>(nullptr));
      case DType::f64:
        return set(static_cast<double*>(nullptr));
      case DType::i32:
        return set(static_cast<int32_t*>(nullptr));
      case DType::i64:
        return set(static_cast<int64_t*>(nullptr));
      case DType::f16:
      case DType::bf16:  // which Gloo does not have, or adds one by one
        options.setOutput(static_cast<uint16_t*>(data.data), data.count);
        options.setReduceFunction(
            [this, dtype = data.dtype, op](void* into, const void*, const void* from, size_t count) {
              reduce_local({into, count, dtype}, {const_cast<void*>(from), count, dtype},
                           op);  // its second is always `into`
            });
        return;
      case DType::u8:
        CHECK_TRUE(false, "cannot reduce u8");
    }
  }

  // Forgets all messages, so that Gloo's thread touches no buffer of a caller that is leaving.
  [[noreturn]] void fail(const std::string& text) {
    flights_.drop_all();
    if (raised_within(monitor().alarm(), grace())) monitor().alarm().fail();
    throw PeerError(text);
  }

  std::string me() const { return fmt::format("rank {}", world_ranks()[rank()]); }
  std::string within() const {
    const StatusCell::Reading status = status_cell().read();
    return status.busy ? " in " + to_text(status.operation) : "";
  }
  std::string describe(const Flight& flight) const {
    return fmt::format("{}: {} of {} bytes {} rank {}{}", me(), flight.receiving ? "receive" : "send",
                       flight.message->size, flight.receiving ? "from" : "to", world_ranks()[flight.peer], within());
  }

  std::shared_ptr<GlooConnections> connections_;
  std::vector<int> connected_as_;
  FlightTable flights_;
};

}  // namespace

std::unique_ptr<Group> make_gloo_group(GroupIdentity identity, std::shared_ptr<Monitor> monitor,
                                       const std::string& address, const std::vector<int>& sockets) {
  CHECK_EQ(sockets.size(), identity.world_ranks.size());
  auto connections = std::make_shared<GlooConnections>(identity, address, sockets);
  std::vector<int> connected_as(identity.world_ranks.size());
  for (size_t i = 0; i < connected_as.size(); ++i) connected_as[i] = static_cast<int>(i);
  return std::make_unique<GlooGroup>(std::move(identity), std::move(monitor), std::move(connections),
                                     std::move(connected_as));
}

}  // namespace paceline
