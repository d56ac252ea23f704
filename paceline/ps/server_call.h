// How a process calls a server of its run: connects, says who it is, is welcomed or refused.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "paceline/core/error.h"
#include "paceline/ps/protocol.h"
#include "paceline/ps/transport.h"

namespace paceline {

// The server will not have this process, today or later: to try again is no use.
class RefusedError : public PeerError {
 public:
  using PeerError::PeerError;
};

inline constexpr const char* kRefusal = "refused: ";        // begins the reason of a server that refuses for good
inline constexpr const char* kRunOver = "the run is over";  // why shard 0 closes its shards' connections at the end
inline constexpr int64_t kWelcomeTimeoutMs = 10'000;

// Why a server does not talk to whoever says this; empty: it does.
std::string why_not_welcome(const HelloHead& hello, const std::string& fingerprint, const std::string& run, int shard,
                            int shards);

// Tries once. Throws RefusedError where the server says so, or is not the one that was meant; PeerError for what may be
// better the next time.
std::unique_ptr<ClientConnection> call_server(const std::string& address, int shard, int shards,
                                              const TransportSecurity& security, const TransportLimits& limits,
                                              const HelloHead& hello);

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

}  // namespace paceline
