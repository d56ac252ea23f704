// LossScaler: a LossScale at work on tensors.
//
//   scaler.scaled(loss).backward();
//   ... gradients are summed over the ranks ...
//   scaler.inspect(gradients);
//   if (scaler.accept()) optimizer.step({.gradient_scale = scaler.gradient_scale(), ...});
//
// The scale, its inverse and what inspect() found are tensors on the device: a kernel that takes them needs no word
// from the host. What is not finite on one rank is not finite in the sum, so that every rank decides the same.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "paceline/precision/loss_scale.h"

namespace paceline {

class LossScaler {
 public:
  LossScaler(LossScale scale, torch::Device device);

  torch::Tensor scaled(const torch::Tensor& loss) const { return loss * scale_; }

  void inspect(const std::vector<torch::Tensor>& gradients);

  const torch::Tensor& scale() const { return scale_; }  // f32 of no dimension, on the device; so are these:
  const torch::Tensor& inverse_scale() const { return inverse_; }
  const torch::Tensor& overflow() const { return overflow_; }  // 1: the step must be skipped

  // Whether to make the step: not after an overflow, nor when the caller knows of one (`known`; the same on every
  // rank). Then the scale is that of the next step. The one place that waits for the device. Throws TrainingError as
  // LossScale::update() does.
  bool accept(bool known = false);

  // What the gradients of the step that accept() has judged must be multiplied by, the scale's inverse.
  double gradient_scale() const { return gradient_scale_; }

  const LossScaleState& state() const { return host_.state(); }
  void resume(const LossScaleState& saved);

 private:
  void copy_to_device();

  LossScale host_;
  torch::Tensor scale_, inverse_, overflow_;
  double gradient_scale_ = 1;
};

}  // namespace paceline
