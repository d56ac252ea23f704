#include "paceline/rendezvous/peer_mesh.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <string_view>
#include <thread>

#include "paceline/comm/rank_list.h"
#include "paceline/core/error.h"
#include "paceline/core/open_files.h"
#include "paceline/rendezvous/socket.h"

namespace paceline {
namespace {

// Every message has a fixed length, so a stranger cannot make a rank keep more than that.
constexpr std::string_view kGreeting = "paceline peer 1\n";
constexpr size_t kNonceBytes = 32;
constexpr size_t kRankBytes = 8;
constexpr size_t kProofBytes = 64;
constexpr size_t kChallengeBytes = kGreeting.size() + kNonceBytes;
constexpr size_t kHelloBytes = kNonceBytes + kRankBytes + kProofBytes;

constexpr int64_t kLookMs = 50;  // how often a wait looks at the alarm

// One connection, from `client` to `server`.
struct Introduction {
  int server = 0;
  int client = 0;
  std::string server_nonce;
  std::string client_nonce;
};

class Mesh {
 public:
  Mesh(const MeshOptions& options, const Secret& secret, Store& store, const Alarm& alarm)
      : options_(options),
        secret_(secret),
        store_(store),
        alarm_(alarm),
        deadline_(options.timeout_ms),
        connections_(options.ranks) {}

  std::vector<Descriptor> connect() && {
    if (options_.rank + 1 < options_.ranks) listen();
    for (int peer = 0; peer < options_.rank; ++peer) connect_with(peer);
    if (options_.rank + 1 < options_.ranks) accept_those_after();
    for (const Descriptor& connection : connections_) {
      if (connection.number() >= 0) wait_without_limit(connection);
    }
    return std::move(connections_);
  }

 private:
  // A connection that came in and has not proved anything yet.
  struct Newcomer {
    Descriptor socket;
    std::string address;
    std::string nonce = random_nonce();
    Deadline by{0};
    std::string input;
    bool gone = false;
  };

  std::string key(int rank) const { return fmt::format("peers/{}/{}/{}", options_.generation, options_.group, rank); }
  std::string me() const { return fmt::format("rank {}", options_.rank); }

  // The two ends prove different things, or a stranger could send a proof back to where it came from.
  std::string proof(const char* end, const Introduction& who) const {
    return secret_.prove(
        {end, who.server_nonce, who.client_nonce, options_.group,
         fmt::format("generation {} server {} client {}", options_.generation, who.server, who.client)});
  }

  void listen() {
    listener_ = listen_at(options_.address, 0);
    store_.set(key(options_.rank), fmt::format("{} {}", local_address_of(listener_).port, options_.address));
  }

  // ---- the connecting end ----
  void connect_with(int peer) {
    const std::string place = place_of(peer);
    const size_t space = place.find(' ');
    const auto port = static_cast<uint16_t>(std::stoi(place.substr(0, space)));
    const std::string host = place.substr(space + 1);
    std::string why_not = "no answer";
    for (auto pause = std::chrono::milliseconds(5);; pause = std::min(pause * 2, std::chrono::milliseconds(200))) {
      if (alarm_.raised()) alarm_.fail();
      auto socket = try_to_connect(host, port, deadline_, why_not);
      if (socket && introduce(*socket, peer, address_text(host, port), why_not)) {
        connections_[peer] = std::move(*socket);
        return;
      }
      if (deadline_.passed())
        throw PeerError(fmt::format("{}: no connection with rank {} at {} within {:.1f} s: {}; can this host reach it?",
                                    me(), peer, address_text(host, port), 1e-3 * options_.timeout_ms, why_not));
      std::this_thread::sleep_for(pause);
    }
  }

  std::string place_of(int peer) {
    try {
      return store_.get(key(peer), deadline_.poll_ms());
    } catch (const PeerError& error) {
      throw PeerError(fmt::format("{}: rank {} did not come to be connected: {}", me(), peer, error.what()));
    }
  }

  // Returns false, and why: the connection ended before the other end proved anything.
  bool introduce(const Descriptor& socket, int peer, const std::string& where, std::string& why_not) {
    std::string challenge, answer;
    if (!read_exactly(socket, kChallengeBytes, challenge, why_not)) return false;
    if (!challenge.starts_with(kGreeting)) fail_as_stranger(peer, where);
    const Introduction who = {peer, options_.rank, challenge.substr(kGreeting.size()), random_nonce()};
    const std::string hello =
        fmt::format("{}{:0{}}{}", who.client_nonce, options_.rank, kRankBytes, proof("peer client", who));
    if (!write_all(socket, hello, deadline_)) {
      why_not = "the connection was closed";
      return false;
    }
    if (!read_exactly(socket, kProofBytes, answer, why_not)) return false;
    if (!equal_proofs(answer, proof("peer server", who))) fail_as_stranger(peer, where);
    return true;
  }

  // Reads no byte more: the engine's own may follow.
  bool read_exactly(const Descriptor& socket, size_t bytes, std::string& into, std::string& why_not) {
    while (into.size() < bytes) {
      if (alarm_.raised()) alarm_.fail();
      why_not = "it says nothing";
      if (deadline_.passed()) return false;
      if (!wait_to_read(socket, deadline_.or_in(kLookMs))) continue;
      why_not = "the connection was closed";
      if (read_some(socket, into, bytes - into.size()) == Transfer::closed) return false;
    }
    return true;
  }

  [[noreturn]] void fail_as_stranger(int peer, const std::string& where) const {
    throw PeerError(
        fmt::format("{}: what answers at {} in place of rank {} does not know the secret of this run and is "
                    "not trusted: another program listens there",
                    me(), where, peer));
  }

  // ---- the listening end ----
  void accept_those_after() {
    while (missing() > 0) {
      if (alarm_.raised()) alarm_.fail();
      if (deadline_.passed()) fail_to_gather();
      const std::vector<pollfd> events = wait_for_events();
      for (size_t i = 1; i < events.size(); ++i) {
        if (events[i].revents != 0) hear(newcomers_[i - 1]);
      }
      if (events[0].revents != 0) let_in();
      for (Newcomer& newcomer : newcomers_) {
        if (!newcomer.gone && newcomer.by.passed())
          refuse(newcomer, "it has not proved to know the run's secret in time");
      }
      std::erase_if(newcomers_, [](const Newcomer& newcomer) { return newcomer.gone; });
    }
  }

  int missing() const {
    return static_cast<int>(std::count_if(connections_.begin() + options_.rank + 1, connections_.end(),
                                          [](const Descriptor& connection) { return connection.number() < 0; }));
  }

  std::vector<pollfd> wait_for_events() const {
    std::vector<pollfd> events = {{listener_.number(), POLLIN, 0}};
    for (const Newcomer& newcomer : newcomers_) events.push_back({newcomer.socket.number(), POLLIN, 0});
    if (::poll(events.data(), events.size(), deadline_.or_in(kLookMs).poll_ms()) < 0) {
      for (pollfd& event : events) event.revents = 0;
    }
    return events;
  }

  void let_in() {
    while (auto socket = accept_next()) {
      Newcomer newcomer{.socket = std::move(*socket), .by = Deadline(options_.silence_ms)};
      newcomer.address = peer_address_of(newcomer.socket).text();
      if (write_all(newcomer.socket, fmt::format("{}{}", kGreeting, newcomer.nonce), Deadline(0)))
        newcomers_.push_back(std::move(newcomer));
    }
  }

  // Strangers take no rank's place: while there are any, the one that has been here longest goes first.
  std::optional<Descriptor> accept_next() {
    const auto waits = [](const Newcomer& newcomer) { return !newcomer.gone; };
    const auto oldest = std::ranges::find_if(newcomers_, waits);
    const bool too_many = std::ranges::count_if(newcomers_, waits) >= 2 * options_.ranks + 64;
    if (too_many) turn_away(*oldest);
    try {
      return accept_from(listener_);
    } catch (const PeerError&) {
      if (too_many || oldest == newcomers_.end()) throw;
      turn_away(*oldest);
      return accept_from(listener_);
    }
  }

  void turn_away(Newcomer& newcomer) { refuse(newcomer, "too many at once have not proved to know the run's secret"); }

  void hear(Newcomer& newcomer) {
    if (newcomer.gone) return;
    if (read_some(newcomer.socket, newcomer.input, kHelloBytes - newcomer.input.size()) == Transfer::closed)
      return refuse(newcomer, "it left without proving that it knows the run's secret");
    if (newcomer.input.size() < kHelloBytes) return;
    const Introduction who = {options_.rank, rank_in(newcomer.input), newcomer.nonce,
                              newcomer.input.substr(0, kNonceBytes)};
    if (!equal_proofs(std::string_view(newcomer.input).substr(kNonceBytes + kRankBytes), proof("peer client", who)))
      return refuse(newcomer, "it does not know the secret of this run");
    if (who.client <= options_.rank || who.client >= options_.ranks)
      return refuse(newcomer, fmt::format("rank {} has nothing to connect with here", who.client));
    // A rank whose first connection broke comes again: the last one counts.
    if (write_all(newcomer.socket, proof("peer server", who), Deadline(0)))
      connections_[who.client] = std::move(newcomer.socket);
    newcomer.gone = true;
  }

  static int rank_in(std::string_view hello) {
    const std::string_view digits = hello.substr(kNonceBytes, kRankBytes);
    int rank = -1;
    std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    return rank;
  }

  void refuse(Newcomer& newcomer, const std::string& why) {
    newcomer.gone = true;
    newcomer.socket = Descriptor();
    if (!told_ && options_.refused)
      options_.refused(fmt::format("{}: a connection from {} was turned away: {}", me(), newcomer.address, why));
    told_ = true;
  }

  [[noreturn]] void fail_to_gather() const {
    std::vector<int> absent;
    for (int peer = options_.rank + 1; peer < options_.ranks; ++peer) {
      if (connections_[peer].number() < 0) absent.push_back(peer);
    }
    throw PeerError(fmt::format("{}: {} did not come to be connected within {:.1f} s; can {} reach {}?", me(),
                                rank_list(absent), 1e-3 * options_.timeout_ms, absent.size() == 1 ? "it" : "they",
                                local_address_of(listener_).text()));
  }

  const MeshOptions& options_;
  const Secret& secret_;
  Store& store_;
  const Alarm& alarm_;
  Deadline deadline_;
  Descriptor listener_;
  std::vector<Newcomer> newcomers_;
  std::vector<Descriptor> connections_;
  bool told_ = false;
};

}  // namespace

std::vector<Descriptor> connect_mesh(const MeshOptions& options, const Secret& secret, Store& store,
                                     const Alarm& alarm) {
  // A connection with each rank, which Gloo duplicates; the listener, and some strangers.
  require_open_files(2 * static_cast<size_t>(options.ranks) + 8,
                     fmt::format("rank {} of {} over TCP", options.rank, options.ranks));
  return Mesh(options, secret, store, alarm).connect();
}

}  // namespace paceline
