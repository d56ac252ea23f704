#include "paceline/ps/front_door.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "paceline/core/check.h"
#include "paceline/core/open_files.h"
#include "paceline/rendezvous/quiet_thread.h"

namespace paceline {
namespace {

constexpr size_t kMostStrangers = 512;
constexpr size_t kOtherDescriptors = 64;  // files of the state, the transport's own
constexpr int kAtOnce = 64;               // connections that are accepted before the others are heard
constexpr int64_t kPauseMs = 100;         // when this process has no descriptor left

int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// What two ways of writing an address have in common: "[::1]:4000" of "ipv6:%5B::1%5D:4000", without a scope.
std::string plain_address(std::string text) {
  for (const char* scheme : {"ipv4:", "ipv6:"}) {
    if (text.starts_with(scheme)) text.erase(0, std::strlen(scheme));
  }
  const std::pair<std::string_view, char> escapes[] = {{"%5B", '['}, {"%5D", ']'}, {"%25", '%'}};
  for (const auto& [escape, letter] : escapes) {
    for (size_t at = 0; (at = text.find(escape, at)) != std::string::npos;) text.replace(at, escape.size(), 1, letter);
  }
  if (const size_t scope = text.find('%'); scope != std::string::npos) {
    text.erase(scope, std::min(text.find(']', scope), text.size()) - scope);
  }
  return text;
}

}  // namespace

DescriptorBudget descriptor_budget(size_t connections_wanted) {
  const size_t used = open_files();
  const size_t allowed = allow_open_files(used + kOtherDescriptors + connections_wanted + 2 * kMostStrangers);
  const size_t left = allowed > used ? allowed - used : 0;
  const size_t room = left - std::min(kOtherDescriptors, left / 4);
  DescriptorBudget budget;
  budget.strangers = std::clamp<size_t>(room / 4, 1, kMostStrangers);
  budget.connections = std::clamp<size_t>(room - std::min(room, 2 * budget.strangers), 1, connections_wanted);
  return budget;
}

class FrontDoor::Service {
  struct Stranger {
    Descriptor socket;  // stays after it was handed on, to end the connection with
    std::string address;
    int64_t until_ms = 0;
    bool handed_on = false;
  };
  using Place = std::list<Stranger>::iterator;

 public:
  Service(std::unique_ptr<Listener> listener, Options options, RefusalLog& refusals)
      : listener_(std::move(listener)), options_(std::move(options)), refusals_(refusals) {
    CHECK_GE(options_.strangers, 1u);
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

  void knows(const std::string& peer) {
    {
      const std::lock_guard lock(mutex_);
      known_.push_back(plain_address(peer));
    }
    wake_up_.call();
  }

 private:
  void serve() {
    std::vector<pollfd> events;
    while (!stopping()) {
      forget_known();
      events = {{wake_up_.descriptor(), POLLIN, 0},
                {now_ms() >= accept_again_ms_ ? listener_->socket().number() : -1, POLLIN, 0}};
      for (const Stranger& stranger : strangers_) {  // of those that were handed on, only their end
        events.push_back({stranger.socket.number(), static_cast<short>(stranger.handed_on ? 0 : POLLIN), 0});
      }
      if (::poll(events.data(), events.size(), poll_ms()) < 0) {
        CHECK_EQ(errno, EINTR);
        continue;
      }
      wake_up_.clear();
      size_t next = 2;
      for (Place place = strangers_.begin(); place != strangers_.end();) {
        const Place stranger = place++;
        if (events[next++].revents != 0) hear(stranger);
      }
      if (events[1].revents != 0) let_in();
      look_at_the_clock();
    }
  }

  bool stopping() {
    const std::lock_guard lock(mutex_);
    return stopping_;
  }

  void forget_known() {
    std::vector<std::string> known;
    {
      const std::lock_guard lock(mutex_);
      known.swap(known_);
    }
    for (const std::string& address : known) {
      strangers_.remove_if([&](const Stranger& each) { return each.handed_on && each.address == address; });
    }
  }

  int poll_ms() const {
    std::optional<int64_t> next;
    const auto consider = [&](int64_t at) { next = std::min(next.value_or(at), at); };
    for (const Stranger& stranger : strangers_) consider(stranger.until_ms);
    if (accept_again_ms_ > now_ms()) consider(accept_again_ms_);
    return next ? static_cast<int>(std::clamp<int64_t>(*next - now_ms(), 0, 3'600'000)) : -1;
  }

  void let_in() {
    for (int i = 0; i < kAtOnce; ++i) {  // those that are here have their turn, too
      Descriptor socket(::accept4(listener_->socket().number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (socket.number() < 0) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK) pause(errno);
        return;
      }
      tune(socket);
      const Endpoint end = other_end(socket.number());
      std::string address = nameless_ ? "a client" : end.text(end.port);
      strangers_.push_back(
          {.socket = std::move(socket), .address = std::move(address), .until_ms = now_ms() + options_.silence_ms});
      make_room(options_.strangers);
    }
  }

  void pause(int code) {
    refusals_.add("a client", fmt::format("cannot take another connection: {}; raise the limit with ulimit -n",
                                          std::strerror(code)));
    if (!strangers_.empty()) make_room(strangers_.size() - 1);
    accept_again_ms_ = now_ms() + kPauseMs;
  }

  // The newest stays, which had no time to speak yet.
  void make_room(size_t most) {
    if (strangers_.size() > most) forget_known();
    if (strangers_.size() <= std::max<size_t>(most, 1)) return;
    const Place newest = std::prev(strangers_.end());
    Place leaves = std::find_if(strangers_.begin(), newest, [](const Stranger& each) { return !each.handed_on; });
    if (leaves == newest) leaves = strangers_.begin();
    turn_away(leaves, "too many at once that have not proved who they are");
  }

  void tune(const Descriptor& socket) const {
    const auto set = [&](int option, int value) {
      ::setsockopt(socket.number(), IPPROTO_TCP, option, &value, sizeof(value));  // fails for unix sockets
    };
    set(TCP_NODELAY, 1);
    set(TCP_USER_TIMEOUT, options_.local ? 20'000 : 5'000);  // as gRPC does it for connections of its own
  }

  void hear(Place stranger) {
    if (stranger->handed_on) {  // it has ended
      strangers_.erase(stranger);
      return;
    }
    char byte = 0;
    const ssize_t there = ::recv(stranger->socket.number(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (there < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
    if (there <= 0) {
      strangers_.erase(stranger);
      return;
    }
    const int socket = ::fcntl(stranger->socket.number(), F_DUPFD_CLOEXEC, 0);
    if (socket < 0) return turn_away(stranger, std::strerror(errno));
    stranger->handed_on = true;
    stranger->until_ms = now_ms() + options_.silence_ms + kPauseMs;  // whom it was handed to may close it before
    options_.hand_on(socket);
    if (nameless_) strangers_.erase(stranger);  // knows() could not tell it from others
  }

  void turn_away(Place stranger, const std::string& why) {
    refusals_.add(stranger->address, why);
    ::shutdown(stranger->socket.number(), SHUT_RDWR);
    strangers_.erase(stranger);
  }

  void look_at_the_clock() {
    forget_known();
    const int64_t now = now_ms();
    for (Place place = strangers_.begin(); place != strangers_.end();) {
      const Place stranger = place++;
      if (stranger->until_ms > now) continue;
      turn_away(stranger, fmt::format("it did not say who it is within {:.1f} s",
                                      static_cast<double>(options_.silence_ms) * 1e-3));
    }
  }

  const std::unique_ptr<Listener> listener_;
  const bool nameless_ = listener_->port() == 0;  // peers at a unix socket have no address
  const Options options_;
  RefusalLog& refusals_;
  WakeUp wake_up_;
  std::list<Stranger> strangers_;  // as they came
  int64_t accept_again_ms_ = 0;

  std::mutex mutex_;
  bool stopping_ = false;
  std::vector<std::string> known_;

  std::thread thread_;
};

FrontDoor::FrontDoor(std::unique_ptr<Listener> listener, Options options, RefusalLog& refusals)
    : service_(std::make_unique<Service>(std::move(listener), std::move(options), refusals)) {}
FrontDoor::~FrontDoor() = default;

void FrontDoor::knows(const std::string& peer) { service_->knows(peer); }

}  // namespace paceline
