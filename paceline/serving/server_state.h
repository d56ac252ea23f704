// ServerState: the state of a server's optimizer, as checkpoints take an optimizer's: one tensor for each of its
// arrays, over all parameters, in the order of the ShardMap.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "paceline/optim/optimizer.h"

namespace paceline {

class ServerState : public Optimizer {
 public:
  // "weights" is left out: the model has them.
  explicit ServerState(const std::map<std::string, std::vector<float>>& states);

  void add(const std::string& name, torch::Tensor tensor) { state_[name] = std::move(tensor); }

  void step(const StepCoefficients& coefficients) override;  // never: the servers do (InternalError)
  State state() const override { return state_; }

 private:
  State state_;
};

// The figures of a server's metrics (JSON) that are worth a line of metrics.jsonl: gradients by what became of them,
// mean staleness, the gap between the fastest and the slowest worker, k, live workers. What is missing is left out.
using ServerFigures = std::vector<std::pair<std::string, double>>;
ServerFigures figures_of(const std::string& metrics);
// How many workers are connected, also those for whom the run is over and who have not left yet; 0 where the metrics do
// not say.
int connected_workers(const std::string& metrics);
// Whether a gradient of this worker has been taken; no, where the metrics do not say.
bool has_pushed(const std::string& metrics, int worker);
// Of each shard, by its number: commands executed, bytes in and out, seconds busy.
std::vector<std::pair<std::string, ServerFigures>> figures_of_shards(const std::string& metrics);

}  // namespace paceline
