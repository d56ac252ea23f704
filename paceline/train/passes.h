// Passes: the parts of a step's samples that are computed at a time (batch.micro), in order; gradients add up over
// them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "paceline/core/recipe.h"
#include "paceline/models/layers.h"
#include "paceline/models/model.h"
#include "paceline/train/batches.h"

namespace paceline {

class Passes {
 public:
  Passes(const Model& model, const Recipe& recipe) : most_(recipe.batch.micro) {
    if (recipe.batch_norm.statistics != "last_iteration") return;
    for (const auto& module : model.modules())
      if (auto* layer = dynamic_cast<BatchNorm2d*>(module.get())) last_iteration_.push_back(layer);
  }

  // Calls visit(images, labels, whether they are the last).
  template <class Visit>
  void each(const TrainingBatch& batch, const Visit& visit) const {
    const int64_t samples = batch.labels.size(0);
    const int64_t at_once = most_ > 0 ? most_ : std::max<int64_t>(samples, 1);
    for (int64_t done = 0, pass = 0; done < samples; done += at_once, ++pass) {
      const int64_t count = std::min(at_once, samples - done);
      keep_mean_of(pass + 1);
      visit(batch.images.narrow(0, done, count), batch.labels.narrow(0, done, count), done + count == samples);
    }
  }

 private:
  // The mean over the passes of a step, so that the last step's statistics are those of all its samples.
  void keep_mean_of(int64_t passes) const {
    for (BatchNorm2d* layer : last_iteration_) layer->set_momentum(1.0 / static_cast<double>(passes));
  }

  int64_t most_;
  std::vector<BatchNorm2d*> last_iteration_;  // layers whose statistics are the last step's
};

}  // namespace paceline
