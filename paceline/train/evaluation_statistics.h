// EvaluationStatistics: while it lives, the model's batch normalisation has the statistics that evaluation, checkpoints
// and the hash of the weights use: averaged over the ranks, and computed anew where the recipe says so. Afterwards each
// rank has its own again.
#pragma once

#include <memory>

#include "paceline/core/recipe.h"
#include "paceline/data/dataset.h"
#include "paceline/gradients/batch_statistics.h"
#include "paceline/models/model.h"

namespace paceline {

class EvaluationStatistics {
 public:
  // Every rank calls it. `data` are the training samples, of which batch_norm.recompute_batches are used, without
  // augmentation, from the first on.
  EvaluationStatistics(Model& model, const Recipe& recipe, const DatasetPair& data, Group& group);
  ~EvaluationStatistics();
  EvaluationStatistics(const EvaluationStatistics&) = delete;
  EvaluationStatistics& operator=(const EvaluationStatistics&) = delete;

 private:
  void recompute(Model& model, const Recipe& recipe, const DatasetPair& data, Group& group);

  NamedTensors live_;
  NamedTensors own_;  // copies from before
  std::unique_ptr<AveragedStatistics> averaged_;
};

}  // namespace paceline
