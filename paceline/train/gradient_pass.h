// GradientPass: forward, loss and backward of one rank's share of a step, in parts of at most batch.micro samples
// (passes.h). Every gradient of a training run is computed here.
//
//   const PassSums sums = pass.gradients(batch, batch.global_count, [&] { reducer.expect_last_pass(); });
//
// Losses are sums over samples. The caller names the number of samples that they are divided by, so uneven shares of a
// global batch are weighted correctly.
#pragma once

#include <torch/types.h>

#include <functional>

#include "paceline/core/recipe.h"
#include "paceline/metrics/timeline.h"
#include "paceline/models/model.h"
#include "paceline/precision/loss_scaler.h"
#include "paceline/train/passes.h"

namespace paceline {

// Sums over the samples of a batch, on the device that computed them: reading one waits for that device.
struct PassSums {
  torch::Tensor loss;     // f32
  torch::Tensor correct;  // int64: samples whose largest output is that of their label
};

class GradientPass {
 public:
  // `scaler` and `timeline` may be null. All of them must outlive this; the model is where it computes.
  GradientPass(Model& model, const Recipe& recipe, LossScaler* scaler = nullptr, Timeline* timeline = nullptr)
      : model_(model),
        recipe_(recipe),
        scaler_(scaler),
        timeline_(timeline),
        passes_(model, recipe),
        numbers_(model.parameters().front().device()) {}

  // Adds the gradient of (sum of losses) / divisor, times the loss scale, to grad() of every parameter. Calls
  // `before_last` before the backward after which grad() is final; never for an empty batch.
  PassSums gradients(
      const TrainingBatch& batch, int64_t divisor, const std::function<void()>& before_last = [] {}) const;

  // The sum of losses alone, in training mode: statistics of batch normalisation take part.
  torch::Tensor loss(const TrainingBatch& batch) const;

  // Outputs alone, part by part: forward() computes those of the images it comes with.
  using Visit = std::function<void(const torch::Tensor& images, const std::function<void()>& forward)>;
  void forwards(const TrainingBatch& batch, const Visit& visit) const;

 private:
  Model& model_;
  const Recipe& recipe_;
  LossScaler* scaler_;
  Timeline* timeline_;
  Passes passes_;
  torch::TensorOptions numbers_;  // where sums lie
  SteadyClock clock_;
};

}  // namespace paceline
