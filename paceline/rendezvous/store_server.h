// StoreServer: the place where the ranks of a run meet. Keeps names and values, knows which ranks are alive, and passes
// on what the watchdogs report. One thread; served by the launcher, or by rank 0 where another program launched us.
// Good for some thousand ranks: each has one or two connections here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "paceline/rendezvous/secret.h"

namespace paceline {

class StoreServer {
 public:
  struct Options {
    std::string address = "127.0.0.1";  // to listen at: an address or a name; empty: every address of this machine
    uint16_t port = 0;                  // 0: any that is free
    int ranks = 1;                      // that are expected
    uint64_t generation = 0;            // ranks of another one are turned away
    int64_t silence_ms = 5000;          // who has not proved to know the secret after this long is turned away
    // Called (on the server's thread) when somebody was turned away: for the log.
    std::function<void(const std::string& why)> refused;
  };
  // Listens when it returns. Throws PeerError: port in use, name that does not resolve, with what to do.
  StoreServer(const Options& options, Secret secret);
  ~StoreServer();  // to whoever is still connected, the store is then gone

  uint16_t port() const;

  // The address by which a rank reached this machine over a network; empty: all ranks came over loopback.
  std::string network_address() const;

  bool anybody_came() const;  // whether any rank has connected: they form a group

  // From a launcher that knows more than a closed connection says: "killed by signal 9", "exited with code 3".
  void declare_dead(int rank, const std::string& how);

  // Until no watching connection is left, or for so long: a rank that serves must not take the store away from others.
  void wait_until_all_left(int64_t timeout_ms);

 private:
  class Service;
  std::unique_ptr<Service> service_;
};

}  // namespace paceline
