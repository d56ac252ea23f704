// ServerWorker: a worker's view of a parameter server: it gets parameters and samples, and gives gradients.
//
//   ServerWorker server({.servers = {"10.0.0.1:7000", "10.0.0.2:7000"}, .map = map, .worker = 3, .run = "mine"});
//   auto assignment = server.join(parameters);
//   while (assignment) {
//     ... compute `gradient`, the mean over assignment->lease.range's samples ...
//     assignment = server.push(gradient, samples, rate, parameters);
//   }
//
// A connection that breaks is made anew, and what had not arrived is sent again: a server that was killed and started
// again goes unnoticed, but for the time it took. Used by one thread; heartbeats have their own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "paceline/core/log.h"
#include "paceline/ps/coordinator.h"
#include "paceline/ps/shard_map.h"
#include "paceline/ps/transport.h"

namespace paceline {

struct WorkerOptions {
  std::vector<std::string> servers;  // shard 0 first
  ShardMap map{{}, 1};               // with servers.size() shards
  int worker = 0;
  std::string run;
  std::string settings;        // what the run means; as the servers have it
  std::string codec = "none";  // of gradients; as the servers have it
  TransportSecurity security;
  TransportLimits limits;
  int64_t patience_ms = 60'000;  // how long servers may be away
  std::stop_token stop;          // they will not come back: then a call fails at once
  int64_t heartbeat_ms = 2'000;
  uint64_t segment_elements = 1 << 18;
  Log* log = nullptr;
};

class ServerWorker {
 public:
  explicit ServerWorker(WorkerOptions options);  // connects. Throws PeerError
  ~ServerWorker();                               // leaves, if it has not

  // Parameters and gradients are all of the model's, one behind the other in the map's order. Each call waits until the
  // policy lets this worker go on; nothing when the run is over.
  std::optional<Assignment> join(std::span<float> parameters);

  // ---- one push ----
  // Elements [begin, begin + count) of the gradient are final: they may leave while others are still computed.
  // Optional.
  void push_ready(std::span<const float> gradient, uint64_t begin, uint64_t count);
  // The rest of it leaves. `gradient` must stay until this returns. For an exchange it is the worker's parameters.
  std::optional<Assignment> push(std::span<const float> gradient, uint64_t samples, double rate,
                                 std::span<float> parameters);

  void send_statistics(std::span<const float> statistics);  // of batch normalisation, for whoever evaluates
  void leave();

  struct Costs {
    double push_s = 0, wait_s = 0, pull_s = 0;  // sending, until released, receiving
    uint64_t pushes = 0, bytes_sent = 0, bytes_received = 0, reconnects = 0;
  };
  Costs costs() const;

 private:
  class Session;
  std::unique_ptr<Session> session_;
};

}  // namespace paceline
