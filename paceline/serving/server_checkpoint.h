// Checkpoints of a run on a parameter server: those of any other run (train/checkpoint.h), of one version on all
// shards, with the servers' state for an optimizer's: "server.NAME" over all parameters, in the order of the ShardMap;
// "server.leases", which samples were used, as text in bytes; "server.last", the optimizer's steps and its last rate.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "paceline/ps/observer.h"
#include "paceline/ps/server.h"
#include "paceline/serving/flat_model.h"
#include "paceline/train/checkpoint.h"

namespace paceline {

CheckpointRef write_server_checkpoint(CheckpointStore& store, const Model& model, const ServerSnapshot& snapshot,
                                      const RunState& state, const std::string& recipe);

struct ServerCheckpoint {
  RunState state;
  std::string leases;
  std::map<std::string, std::vector<float>> states;  // of the optimizer, whole
  uint64_t steps = 0;
  double rate = 0;

  ServerRestart of_shard(const ShardMap& map, int shard) const;
};

// The model gets the weights. Throws DataError for a checkpoint of another model, or of a run without servers.
ServerCheckpoint read_server_checkpoint(const CheckpointRef& checkpoint, Model& model);

}  // namespace paceline
