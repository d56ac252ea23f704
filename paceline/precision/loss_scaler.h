// LossScaler: a LossScale at work on tensors.
//
//   scaler.scaled(loss).backward();
//   ... gradients are summed over the ranks ...
//   scaler.inspect(gradients);
//   if (scaler.accept()) optimizer.step({.gradient_scale = scaler.gradient_scale(), ...});
//
// or, where nobody should wait for the device:
//
//   optimizer.step({.found_inf = scaler.overflow(), .inverse_scale = scaler.inverse_scale(), ...});
//   scaler.accept_on_device();
//   ... many steps later ...
//   scaler.settle();
//
// What is not finite on one rank is not finite in the sum, so that every rank decides the same.
#pragma once

#include <torch/types.h>

#include <vector>

#include "paceline/kernels/loss_scale.h"
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
  // rank). Then the scale is that of the next step. Waits for the device. Throws TrainingError as
  // LossScale::update() does.
  bool accept(bool known = false);

  // What the gradients of the step that accept() has judged must be multiplied by, the scale's inverse.
  double gradient_scale() const { return gradient_scale_; }

  // The same decision, made on the device where inspect() left its finding; may be captured in a CUDA graph. The scale
  // is then that of the next step there, and state() is of the past until settle().
  void accept_on_device();
  // Brings state() up to what happened on the device, for which it waits. Throws TrainingError as LossScale::update()
  // would have.
  void settle();

  const LossScaleState& state() const { return host_.state(); }
  void resume(const LossScaleState& saved);

 private:
  LossScaleMemory memory() const;
  void copy_to_device();

  LossScale host_;
  torch::Tensor scale_, inverse_, overflow_;
  torch::Tensor counts_;  // f64: scale, clean steps, skips in a row, skipped steps, most skips in a row
  double gradient_scale_ = 1;
};

}  // namespace paceline
