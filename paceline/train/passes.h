// Passes: the parts of a step's samples that are computed at a time (batch.micro), in order; gradients add up over
// them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "paceline/core/recipe.h"
#include "paceline/models/model.h"
#include "paceline/train/batches.h"
#include "paceline/train/pooled_statistics.h"

namespace paceline {

// Cuts `batch` into parts of at most `most` samples (0: one part), and puts each through the layers of `statistics`.
// Calls visit(images, labels, whether they are the last).
template <class Visit>
void for_each_part(const TrainingBatch& batch, int64_t most, PooledStatistics& statistics, const Visit& visit) {
  const int64_t samples = batch.labels.size(0);
  const int64_t at_once = most > 0 ? most : std::max<int64_t>(samples, 1);
  for (int64_t done = 0; done < samples; done += at_once) {
    const int64_t count = std::min(at_once, samples - done);
    statistics.include(count, [&] {
      visit(batch.images.narrow(0, done, count), batch.labels.narrow(0, done, count), done + count == samples);
    });
  }
}

class Passes {
 public:
  Passes(const Model& model, const Recipe& recipe) : most_(recipe.batch.micro) {
    if (recipe.batch_norm.statistics == "last_iteration") last_iteration_ = batch_norm_layers(model);
  }

  template <class Visit>
  void each(const TrainingBatch& batch, const Visit& visit) const {
    PooledStatistics statistics(last_iteration_);
    for_each_part(batch, most_, statistics, visit);
  }

 private:
  int64_t most_;
  std::vector<BatchNorm2d*> last_iteration_;  // layers whose statistics are those of the last step, of all its passes
};

}  // namespace paceline
