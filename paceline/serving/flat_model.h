// FlatModel: a model's parameters and gradients as one run of f32 numbers, in the order of a ShardMap: what travels to
// and from a parameter server.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "paceline/models/model.h"
#include "paceline/optim/parameter.h"
#include "paceline/ps/shard_map.h"

namespace paceline {

class FlatModel {
 public:
  explicit FlatModel(std::shared_ptr<Model> model);

  Model& model() { return *model_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  uint64_t count() const { return count_; }

  std::vector<float> weights() const;
  void load(std::span<const float> weights);              // into the model
  void gather_gradient(std::span<float> gradient) const;  // 0 where a parameter has none

  // Running means and variances of batch normalisation, with their counters.
  std::vector<float> statistics() const;
  // Of several workers, each as statistics() gave it: the mean of means and of squares, from which the variance
  // follows. Averages begin with mean 0 and variance 1, of which a worker that has just begun has much left: that is
  // taken out, and it counts for the less. Nothing happens where no worker has seen anything.
  void load_mean_statistics(const std::vector<std::span<const float>>& of_workers);
  // The other way round, for a worker that goes on with such means: what was taken out of young averages is put back.
  void go_on_with_mean_statistics();

 private:
  std::shared_ptr<Model> model_;
  std::vector<Parameter> parameters_;
  uint64_t count_ = 0;
};

}  // namespace paceline
