#include "paceline/rendezvous/store_server.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "paceline/comm/death_text.h"
#include "paceline/core/open_files.h"
#include "paceline/rendezvous/outbox.h"
#include "paceline/rendezvous/quiet_thread.h"
#include "paceline/rendezvous/roster.h"
#include "paceline/rendezvous/socket.h"
#include "paceline/rendezvous/status_board.h"
#include "paceline/rendezvous/store_protocol.h"

namespace paceline {
namespace {

constexpr size_t kMostWaitingBytes = 256 << 20;  // for one that does not read; more, and it is given up
constexpr int64_t kAcceptPauseMs = 100;          // when this process has no descriptor left

int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

class StoreServer::Service {
  // One connection: a stranger until it has proved to know the secret.
  struct Visitor {
    Descriptor socket;
    std::string address;
    std::string nonce = random_nonce();
    int64_t hello_by_ms = 0;
    int rank = -1;  // of a stranger
    bool watching = false;
    bool gone = false;
    FrameReader frames{kStrangerFrameBytes};
    Outbox outbox;

    bool stranger() const { return rank < 0; }
  };

 public:
  Service(const Options& options, Secret secret)
      : options_(options),
        secret_(std::move(secret)),
        listener_(listen_at(options.address, options.port)),
        roster_(options.ranks),
        board_(roster_),
        watchers_(options.ranks, nullptr) {
    const size_t connections = 2 * static_cast<size_t>(options.ranks);  // of the ranks
    require_open_files(connections + 4, fmt::format("the store of {} rank(s)", options.ranks));
    allow_open_files(connections + 256);
    thread_ = start_quiet_thread([this] { serve(); });
  }

  ~Service() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_up_.call();
    thread_.join();
  }

  bool anybody_came() const { return anybody_came_; }
  uint16_t port() const { return local_address_of(listener_).port; }
  std::string network_address() const {
    const std::lock_guard lock(mutex_);
    return network_address_;
  }

  void declare_dead(int rank, const std::string& how) {
    CHECK_TRUE(roster_.has(rank), "there is no rank {}", rank);
    {
      const std::lock_guard lock(mutex_);
      declared_.emplace_back(rank, how);
    }
    wake_up_.call();
  }

  void wait_until_all_left(int64_t timeout_ms) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] { return watched_ == 0; });
  }

 private:
  void count_watched(int change) {
    const std::lock_guard lock(mutex_);
    watched_ += change;
    changed_.notify_all();
  }

  void serve() {
    while (take_orders()) {
      const std::vector<pollfd> events = wait_for_events();
      for (size_t i = 2; i < events.size(); ++i) {
        if ((events[i].revents & ~POLLOUT) != 0) receive(*visitors_[i - 2]);
      }
      if (events[1].revents != 0) let_in();
      look_at_the_clock();
      send_what_waits();
      see_off();
    }
  }

  // What other threads want of this one; false: to stop.
  bool take_orders() {
    std::vector<std::pair<int, std::string>> declared;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return false;
      declared.swap(declared_);
    }
    for (const auto& [rank, how] : declared) {
      if (const auto news = roster_.declare_dead(rank, how)) spread(*news);
    }
    return true;
  }

  std::vector<pollfd> wait_for_events() {
    const bool listening = now_ms() >= accept_again_ms_;
    std::vector<pollfd> events = {{wake_up_.descriptor(), POLLIN, 0}, {listening ? listener_.number() : -1, POLLIN, 0}};
    for (const auto& visitor : visitors_) {
      const short out = visitor->outbox.empty() ? 0 : POLLOUT;
      events.push_back({visitor->socket.number(), static_cast<short>(POLLIN | out), 0});
    }
    if (::poll(events.data(), events.size(), poll_ms()) < 0) {
      CHECK_EQ(errno, EINTR);
      for (pollfd& event : events) event.revents = 0;
    }
    wake_up_.clear();
    return events;
  }

  int poll_ms() const {
    std::optional<int64_t> next = roster_.next_overdue_ms();
    const auto consider = [&](std::optional<int64_t> at) {
      if (at) next = std::min(next.value_or(*at), *at);
    };
    consider(board_.next_due_ms());
    if (accept_again_ms_ > now_ms()) consider(accept_again_ms_);
    for (const auto& visitor : visitors_) {
      if (visitor->stranger()) consider(visitor->hello_by_ms);
    }
    return next ? static_cast<int>(std::clamp<int64_t>(*next - now_ms(), 0, 3'600'000)) : -1;
  }

  // ---- connections ----
  void let_in() {
    try {
      while (auto socket = accept_from(listener_)) {
        out_of_descriptors_ = false;
        make_room_for_a_stranger();
        auto visitor = std::make_unique<Visitor>();
        visitor->socket = std::move(*socket);
        visitor->address = peer_address_of(visitor->socket).text();
        visitor->hello_by_ms = now_ms() + options_.silence_ms;
        visitor->outbox.add(encode(Challenge{.nonce = visitor->nonce}));
        visitors_.push_back(std::move(visitor));
      }
    } catch (const PeerError& error) {
      if (!std::exchange(out_of_descriptors_, true)) log_refusal(error.what());
      accept_again_ms_ = now_ms() + kAcceptPauseMs;
    }
  }

  // However many strangers come, the ranks still find a place: the stranger who has been here longest must go.
  void make_room_for_a_stranger() {
    const auto waits = [](const auto& visitor) { return visitor->stranger() && !visitor->gone; };
    if (std::ranges::count_if(visitors_, waits) < 2 * options_.ranks + 64) return;
    refuse(**std::ranges::find_if(visitors_, waits), "too many at once who have not proved to know the secret");
  }

  void receive(Visitor& visitor) {
    try {
      const Transfer transfer = read_some(visitor.socket, visitor.frames.input());
      const bool lost = transfer == Transfer::closed && network_failed();
      while (!visitor.gone) {
        const auto frame = visitor.frames.next();
        if (!frame) break;
        handle(visitor, *frame);
      }
      if (transfer == Transfer::closed) leave(visitor, lost ? kConnectionLost : kConnectionClosed);
    } catch (const ProtocolError& error) {
      refuse(visitor, fmt::format("it does not speak as a rank does ({})", error.what()));
    }
  }

  // Once for all that this round has brought: when a thousand ranks leave, each hears of the others in a few messages.
  void send_what_waits() {
    for (const auto& visitor : visitors_) {
      if (visitor->gone || visitor->outbox.empty()) continue;
      if (!visitor->outbox.flush(visitor->socket))
        leave(*visitor, network_failed() ? kConnectionLost : kConnectionClosed);
      else if (visitor->outbox.waiting_bytes() > kMostWaitingBytes)
        leave(*visitor, "it takes no news any more");
    }
  }

  void refuse(Visitor& visitor, const std::string& why) {
    log_refusal(fmt::format("{} was turned away: {}", visitor.address, why));
    leave(visitor);
  }
  void log_refusal(const std::string& why) const {
    if (options_.refused) options_.refused(why);
  }

  // Without a farewell, a watched rank is then lost.
  void leave(Visitor& visitor, std::string_view how = kConnectionClosed) {
    if (visitor.gone) return;
    visitor.gone = true;
    if (!visitor.watching) return;
    watchers_[visitor.rank] = nullptr;
    count_watched(-1);
    roster_.lose(visitor.rank, now_ms(), how);
  }

  void see_off() {
    const auto gone = [](const auto& visitor) { return visitor->gone; };
    if (std::ranges::none_of(visitors_, gone)) return;
    for (auto& [key, waiting] : waiting_) std::erase_if(waiting, [](const auto& getter) { return getter.first->gone; });
    std::erase_if(visitors_, gone);
  }

  void look_at_the_clock() {
    const int64_t now = now_ms();
    for (const auto& visitor : visitors_) {
      if (visitor->stranger() && !visitor->gone && visitor->hello_by_ms <= now)
        refuse(*visitor, fmt::format("it did not say who it is within {:.1f} s",
                                     static_cast<double>(options_.silence_ms) * 1e-3));
    }
    for (const StoreNews& news : roster_.overdue(now)) spread(news);
    for (const StatusBoard::Statement& statement : board_.due(now)) {
      const auto bytes = std::make_shared<const std::string>(encode(to_wire(statement.news)));
      for (const int rank : statement.to) {
        if (Visitor* watcher = watchers_[rank]) watcher->outbox.add(bytes);
      }
    }
  }

  // ---- what they say ----
  void handle(Visitor& visitor, const Frame& frame) {
    if (visitor.stranger()) return welcome(visitor, decode<Hello>(frame));
    if (frame.kind == FrameKind::set) return set(visitor, decode<Set>(frame));
    if (frame.kind == FrameKind::get) return get(visitor, decode<Get>(frame));
    if (!visitor.watching) throw ProtocolError("what only a watching connection may say");
    if (frame.kind == FrameKind::report) return report(visitor, decode<Report>(frame));
    if (frame.kind == FrameKind::answer) return answer(visitor, decode<Answer>(frame));
    if (frame.kind == FrameKind::failure) return fail(visitor, decode<Failure>(frame));
    decode<Farewell>(frame);
    spread(roster_.farewell(visitor.rank));
    leave(visitor);
  }

  void note_network_address(const Visitor& visitor) {
    const std::string address = local_address_of(visitor.socket).host;
    const std::lock_guard lock(mutex_);
    if (network_address_.empty() && !is_loopback(address)) network_address_ = address;
  }

  void welcome(Visitor& visitor, const Hello& hello) {
    if (const auto objection = objection_to(visitor, hello)) {
      visitor.outbox.add(encode(Refusal{*objection}));
      visitor.outbox.flush(visitor.socket);
      return refuse(visitor, *objection);
    }
    visitor.rank = hello.rank;
    anybody_came_ = true;
    note_network_address(visitor);
    visitor.frames.set_most_bytes(kFrameBytes);
    visitor.outbox.add(encode(Welcome{server_proof(secret_, visitor.nonce, hello)}));
    if (failure_) visitor.outbox.add(encode(to_wire(*failure_)));
    for (const StoreNews& news : roster_.history()) visitor.outbox.add(encode(to_wire(news)));
    if (hello.watching) {
      visitor.watching = true;
      watchers_[hello.rank] = &visitor;
      count_watched(1);
      roster_.watch(hello.rank, visitor.address);
    }
  }

  // The secret comes first: a stranger learns nothing of the run.
  std::optional<std::string> objection_to(const Visitor& visitor, const Hello& hello) const {
    if (!equal_proofs(hello.proof, client_proof(secret_, visitor.nonce, hello)))
      return "its secret is not that of this run; PACELINE_SECRET must be the same on all ranks";
    if (hello.generation != options_.generation)
      return fmt::format("rank {} is of generation {}, this run of generation {}; it belongs to a run before or after",
                         hello.rank, hello.generation, options_.generation);
    if (!roster_.has(hello.rank))
      return fmt::format("there is no rank {} in this run of {} ranks", hello.rank, roster_.ranks());
    return hello.watching ? roster_.objection(hello.rank) : std::nullopt;
  }

  void set(Visitor& visitor, Set message) {
    require_short(message.key);
    const auto value = std::make_shared<const std::string>(std::move(message.value));
    values_[message.key] = value;
    visitor.outbox.add(encode(Stored{message.request}));
    const auto waiting = waiting_.extract(message.key);
    if (waiting.empty()) return;
    for (const auto& [getter, request] : waiting.mapped()) send_value(*getter, request, value);
  }

  void get(Visitor& visitor, const Get& message) {
    require_short(message.key);
    const auto value = values_.find(message.key);
    if (value == values_.end())
      waiting_[message.key].emplace_back(&visitor, message.request);
    else
      send_value(visitor, message.request, value->second);
  }

  void send_value(Visitor& visitor, uint64_t request, const Outbox::Bytes& value) {
    visitor.outbox.add(encode_value_head(request, value->size()));
    visitor.outbox.add(value);
  }

  void report(const Visitor& visitor, const Report& message) {
    require_short(message.group);
    const bool known = std::ranges::all_of(message.members, [&](int member) { return roster_.has(member); });
    if (!known) throw ProtocolError("a group of ranks that are not in this run");
    const StoreNews ask{.kind = StoreNews::Kind::ask, .rank = visitor.rank, .group = message.group};
    const auto bytes = std::make_shared<const std::string>(encode(to_wire(ask)));
    for (const int rank : board_.report(visitor.rank, message.group, message.members, message.mine.status, now_ms())) {
      if (Visitor* watcher = watchers_[rank]) watcher->outbox.add(bytes);
    }
  }

  void answer(const Visitor& visitor, const Answer& message) {
    require_short(message.group);
    board_.answer(visitor.rank, message.group, message.mine.status, now_ms());
  }

  void fail(const Visitor& visitor, const Failure& message) {
    const StoreNews news{.kind = StoreNews::Kind::failed, .rank = visitor.rank, .text = message.text};
    if (!failure_) failure_ = news;
    spread(news);
  }

  static void require_short(const std::string& key) {
    if (key.size() > kMostKeyBytes) throw ProtocolError(fmt::format("a name of {} bytes", key.size()));
  }

  // To everybody but the rank that it is about.
  void spread(const StoreNews& news) {
    const auto bytes = std::make_shared<const std::string>(encode(to_wire(news)));
    for (const auto& visitor : visitors_) {
      if (!visitor->stranger() && !visitor->gone && visitor->rank != news.rank) visitor->outbox.add(bytes);
    }
  }

  Options options_;
  Secret secret_;
  Descriptor listener_;
  WakeUp wake_up_;
  int64_t accept_again_ms_ = 0;
  bool out_of_descriptors_ = false;  // and it was told
  std::atomic<bool> anybody_came_ = false;

  std::vector<std::unique_ptr<Visitor>> visitors_;
  std::unordered_map<std::string, Outbox::Bytes> values_;
  std::map<std::string, std::vector<std::pair<Visitor*, uint64_t>>> waiting_;  // for a key: who, and with which request
  Roster roster_;
  StatusBoard board_;
  std::vector<Visitor*> watchers_;    // by rank
  std::optional<StoreNews> failure_;  // the first that a rank reported

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::string network_address_;
  int watched_ = 0;
  bool stopping_ = false;
  std::vector<std::pair<int, std::string>> declared_;

  std::thread thread_;
};

StoreServer::StoreServer(const Options& options, Secret secret)
    : service_(std::make_unique<Service>(options, std::move(secret))) {}
StoreServer::~StoreServer() = default;

uint16_t StoreServer::port() const { return service_->port(); }
std::string StoreServer::network_address() const { return service_->network_address(); }
bool StoreServer::anybody_came() const { return service_->anybody_came(); }
void StoreServer::declare_dead(int rank, const std::string& how) { service_->declare_dead(rank, how); }
void StoreServer::wait_until_all_left(int64_t timeout_ms) { service_->wait_until_all_left(timeout_ms); }

}  // namespace paceline
