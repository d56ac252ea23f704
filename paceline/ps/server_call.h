// How a process calls a server of its run: connects, says who it is, is welcomed or refused.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>

#include "paceline/core/error.h"
#include "paceline/ps/protocol.h"
#include "paceline/ps/run_mark.h"
#include "paceline/ps/transport.h"

namespace paceline {

inline constexpr const char* kRefusal = "refused: ";        // begins the reason of a server that refuses for good
inline constexpr const char* kRunOver = "the run is over";  // why shard 0 closes its shards' connections at the end
inline constexpr int64_t kWelcomeTimeoutMs = 10'000;

// What a server is, for those who call it.
struct ServerIdentity {
  std::string run, fingerprint;
  RunMark mark;
  int shard = 0, shards = 1;
};

// Why a server does not talk to a process that says this; empty: it does. `version`: the server's.
std::string why_not_welcome(const HelloHead& hello, const ServerIdentity& server, uint64_t version);
// The same, of a certificate that does not go with what the process says it is. `security`: the server's.
std::string why_not_certified(const HelloHead& hello, CertifiedAs certified, const TransportSecurity& security);

// Tries once; `history` becomes that of the server's state. Throws RefusedError where the server says so, or is not the
// one that was meant; PeerError for what may be better the next time.
std::unique_ptr<ClientConnection> call_server(const std::string& address, int shard, int shards,
                                              const TransportSecurity& security, const TransportLimits& limits,
                                              const HelloHead& hello, uint64_t& history);

// Returns false as soon as `stop` is requested.
inline bool sleep_unless(const std::stop_token& stop, int64_t ms) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  return !stopped.wait_for(lock, stop, std::chrono::milliseconds(ms), [&] { return stop.stop_requested(); });
}

// How long to wait before the next try: 20 ms, twice as long each time, a second at most.
class BackOff {
 public:
  int64_t next_ms() {
    const int64_t now_ms = wait_ms_;
    wait_ms_ = wait_ms_ < 500 ? 2 * wait_ms_ : 1'000;
    return now_ms;
  }

 private:
  int64_t wait_ms_ = 20;
};

// Calls in a row that were broken off in the middle of the handshake. Once, the server may have died just then; kMost
// times, within about a second, it does not want us.
class CallsBrokenOff {
 public:
  static constexpr int kMost = 6;

  void count(const PeerError& failure) {  // of a call; throws RefusedError
    in_a_row_ = dynamic_cast<const HandshakeError*>(&failure) != nullptr ? in_a_row_ + 1 : 0;
    if (in_a_row_ < kMost) return;
    throw RefusedError(fmt::format("{} ({} calls in a row ended so)", failure.what(), in_a_row_));
  }

 private:
  int in_a_row_ = 0;
};

}  // namespace paceline
