// Layers that allocate and do not initialise: torch::nn's own would draw from the global generator in their
// constructors (and touch 550 MB for a VGG-16 whose weights are then overwritten). Names and shapes of parameters are
// torch's.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>

#include "paceline/models/sum_over_ranks.h"

namespace paceline {

struct ConvShape {
  int64_t in = 0, out = 0;  // channels
  int64_t kernel = 3;
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t groups = 1;
  bool bias = false;
};

class Conv2d : public torch::nn::Module {
 public:
  explicit Conv2d(const ConvShape& shape);
  torch::Tensor forward(const torch::Tensor& images) const;

 private:
  ConvShape shape_;
  torch::Tensor weight_, bias_;
};

class Linear : public torch::nn::Module {
 public:
  Linear(int64_t in, int64_t out);
  torch::Tensor forward(const torch::Tensor& features) const;

 private:
  torch::Tensor weight_, bias_;
};

// Normalises each channel over samples and pixels; keeps moving averages (momentum 0.1) for evaluation.
class BatchNorm2d : public torch::nn::Module {
 public:
  static constexpr double kMomentum = 0.1;
  static constexpr double kEpsilon = 1e-5;

  explicit BatchNorm2d(int64_t channels, double initial_gamma = 1);

  // The images normalised, plus the residual if it is defined, through a ReLU if wanted: while training on a GPU as one
  // operation, where that is possible. Throws TrainingError when training on a single value per channel: it has no
  // variance.
  torch::Tensor forward(const torch::Tensor& images, const torch::Tensor& residual = {}, bool relu = false);

  double initial_gamma() const { return initial_gamma_; }
  void reset();  // gamma, beta and the statistics as at the start of a training

  // The weight of the next batch in the running statistics, kMomentum at first; 1: only the last batch counts.
  void set_momentum(double momentum) { momentum_ = momentum; }
  // n/(n-1), n being the values that a training batch had in each channel: the mean over the batches in the running
  // variance, which is that of a sample. 0: there was none.
  double correction() const { return correction_; }
  void set_correction(double correction) { correction_ = correction; }  // as a checkpoint says
  // Values that the last training batch had in each channel; 0: there was none.
  int64_t values_per_channel() const { return values_per_channel_; }
  // The part of forward() that is the host's, while training: for a graph that repeats the rest.
  void note_batch(int64_t values_per_channel);
  const torch::Tensor& running_mean() const { return running_mean_; }
  const torch::Tensor& running_variance() const { return running_var_; }
  // Normalise over the samples of all ranks, whose sums this makes; empty: over those of this rank.
  void synchronise(SumOverRanks sum) { sum_ = std::move(sum); }

 private:
  double initial_gamma_;
  double momentum_ = kMomentum;
  int64_t values_per_channel_ = 0;
  double correction_ = 0;
  SumOverRanks sum_;
  torch::Tensor weight_, bias_;  // gamma, beta
  torch::Tensor running_mean_, running_var_, num_batches_tracked_;
};

// What follows a convolution or a normalisation: plus the residual, if it is defined, and a ReLU, if wanted. In place:
// the backward passes of both need their inputs, not their outputs.
torch::Tensor finish_block(torch::Tensor out, const torch::Tensor& residual, bool relu);

// The same images with the channels of each pixel side by side, which the layers that follow keep. On a CPU a step of
// ResNet-20 then takes 0.72 of the time, of SmallCnn 0.60, of MobileNet 0.57 (one thread, batch 64, 32 pixels); VGG and
// AlexNet are slower so. Weights keep their layout. On other devices images pass untouched: there the weights' layout
// decides.
torch::Tensor channels_last(const torch::Tensor& images);

// Zeroes a share of the features while training; with rate 0 or in evaluation they pass untouched. Draws from torch's
// generator: whoever trains seeds it for every step.
torch::Tensor drop(const torch::Tensor& features, double rate, bool training);

}  // namespace paceline
