// For tests: a store on this machine, its clients, and what they hear.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "paceline/rendezvous/deadline.h"
#include "paceline/rendezvous/socket.h"
#include "paceline/rendezvous/store_client.h"
#include "paceline/rendezvous/store_server.h"

namespace paceline {

constexpr int64_t kPatienceMs = 30'000;  // of a test, for what must come

inline std::unique_ptr<StoreClient> join(const StoreServer& server, int rank, bool watching,
                                         const Secret& secret = Secret("of this test"), uint64_t generation = 0) {
  return std::make_unique<StoreClient>(StoreClient::Options{.host = "127.0.0.1",
                                                            .port = server.port(),
                                                            .rank = rank,
                                                            .generation = generation,
                                                            .watching = watching,
                                                            .timeout_ms = kPatienceMs},
                                       secret);
}

// The next news, however many come at once.
class NewsListener {
 public:
  explicit NewsListener(StoreClient& client) : client_(client) {}

  StoreNews next() {
    const Deadline deadline(kPatienceMs);
    while (heard_.empty()) {
      heard_ = client_.news();
      pollfd event{client_.descriptor(), POLLIN, 0};
      if (heard_.empty() && ::poll(&event, 1, deadline.poll_ms()) == 0) throw PeerError("no news came");
    }
    StoreNews first = heard_.front();
    heard_.erase(heard_.begin());
    return first;
  }

 private:
  StoreClient& client_;
  std::vector<StoreNews> heard_;
};

// The connection breaks as if the process had been killed.
inline void break_off(std::unique_ptr<StoreClient> client) { ::shutdown(client->descriptor(), SHUT_RDWR); }

template <class Body>
std::string peer_error_of(const Body& body) {
  try {
    body();
  } catch (const PeerError& error) {
    return error.what();
  }
  return "no error";
}

// Where nobody listens.
inline uint16_t free_port() { return local_address_of(listen_at("127.0.0.1", 0)).port; }

}  // namespace paceline
