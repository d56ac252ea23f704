// EvaluationStatistics: while it lives, the model's batch normalisation has the statistics that evaluation, checkpoints
// and the hash of the weights use: averaged over the ranks, and computed anew where the recipe says so. Afterwards each
// rank has its own again.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "paceline/core/recipe.h"
#include "paceline/data/dataset.h"
#include "paceline/gradients/batch_statistics.h"
#include "paceline/models/layers.h"
#include "paceline/models/model.h"

namespace paceline {

class EvaluationStatistics {
 public:
  // Every rank calls it. `data` are the training samples, of which batch_norm.recompute_batches are used, without
  // augmentation, from the first on. `weight` is that of this rank's own statistics in the mean over the ranks.
  EvaluationStatistics(Model& model, const Recipe& recipe, const DatasetPair& data, Group& group, double weight);
  ~EvaluationStatistics();
  EvaluationStatistics(const EvaluationStatistics&) = delete;
  EvaluationStatistics& operator=(const EvaluationStatistics&) = delete;

 private:
  // Returns the samples that this rank had.
  int64_t recompute(Model& model, const Recipe& recipe, const DatasetPair& data, Group& group);

  NamedTensors live_;
  NamedTensors own_;  // copies from before
  std::vector<std::pair<BatchNorm2d*, double>> own_corrections_;
  std::unique_ptr<AveragedStatistics> averaged_;
};

}  // namespace paceline
