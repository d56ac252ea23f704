// ServerObserver: looks at a parameter server without taking part: for evaluation, metrics and checkpoints. What it
// sees is of one version on all shards.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "paceline/ps/shard_map.h"
#include "paceline/ps/transport.h"
#include "paceline/ps/worker.h"

namespace paceline {

struct ServerSnapshot {
  uint64_t version = 0;
  uint64_t first_update = 0;  // updates that the run had made before version 0
  uint64_t used_samples = 0;
  bool over = false;
  uint64_t steps = 0;  // of the optimizer, and the last one's rate; with weights
  double rate = 0;
  std::string leases;                                // SampleLeases::save(); with states
  std::string metrics;                               // JSON
  std::map<std::string, std::vector<float>> states;  // "weights"; with states, the optimizer's
  std::vector<std::vector<float>> statistics;        // of every worker that has sent some
};

class ServerObserver {
 public:
  explicit ServerObserver(WorkerOptions options);  // options.worker: which observer, from 0
  ~ServerObserver();
  struct Wish {
    bool weights = false;  // neither: how far the run is, which costs the servers next to nothing
    bool states = false;   // weights and all of the optimizer's: for a checkpoint
  };
  ServerSnapshot observe(const Wish& wish);  // throws PeerError when servers stay away for longer than the patience

 private:
  class Session;
  std::unique_ptr<Session> session_;
};

}  // namespace paceline
