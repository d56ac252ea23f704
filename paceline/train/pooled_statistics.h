// PooledStatistics: the running statistics of batch normalisation become those of several batches together, as if they
// had been one: each batch counts by its share of the samples, and the variance has what lies between their means.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "paceline/models/layers.h"

namespace paceline {

class PooledStatistics {
 public:
  // Of these layers. What they have from before goes with the first batch.
  explicit PooledStatistics(const std::vector<BatchNorm2d*>& layers) : layers_(layers) {}

  // forward() takes a batch of so many samples through the layers, in training mode.
  template <class Forward>
  void include(int64_t samples, const Forward& forward) {
    const double share = static_cast<double>(samples) / static_cast<double>(samples_ + samples);
    std::vector<torch::Tensor> before;
    for (BatchNorm2d* layer : layers_) {
      layer->set_momentum(share);
      if (samples_ > 0) before.push_back(layer->running_mean().clone());
    }
    forward();
    if (samples_ > 0) add_what_lies_between(before, share);
    samples_ += samples;
  }

 private:
  // (1 - share)·share·(difference of the means)²
  void add_what_lies_between(const std::vector<torch::Tensor>& before, double share) const {
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < layers_.size(); ++i) {
      const torch::Tensor moved = layers_[i]->running_mean() - before[i];  // share·(that difference)
      layers_[i]->running_variance().addcmul_(moved, moved, (1 - share) / share);
    }
  }

  const std::vector<BatchNorm2d*>& layers_;
  int64_t samples_ = 0;
};

inline std::vector<BatchNorm2d*> batch_norm_layers(const torch::nn::Module& model) {
  std::vector<BatchNorm2d*> layers;
  for (const auto& module : model.modules())
    if (auto* layer = dynamic_cast<BatchNorm2d*>(module.get())) layers.push_back(layer);
  return layers;
}

}  // namespace paceline
