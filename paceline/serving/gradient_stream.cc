#include "paceline/serving/gradient_stream.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include <algorithm>

#include "paceline/core/check.h"

namespace paceline {

GradientStream::GradientStream(const FlatModel& flat, std::span<float> gradient, uint64_t least, Ready ready)
    : gradient_(gradient), least_(least), ready_(std::move(ready)) {
  CHECK_EQ(gradient.size(), flat.count());
  uint64_t begin = 0;
  for (const Parameter& parameter : flat.parameters()) {
    const auto count = static_cast<uint64_t>(parameter.tensor.numel());
    slots_.push_back({.tensor = parameter.tensor, .begin = begin, .count = count});
    begin += count;
  }
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].accumulator = torch::autograd::impl::grad_accumulator(slots_[i].tensor);
    slots_[i].hook = slots_[i].accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [this, i](const torch::autograd::variable_list& outputs, const torch::autograd::variable_list&) {
          arrive(i);
          return outputs;
        }));
  }
}

GradientStream::~GradientStream() {
  for (Slot& slot : slots_) slot.accumulator->del_post_hook(slot.hook);
}

void GradientStream::expect_last_pass() {
  for (Slot& slot : slots_) slot.there = false;
  complete_ = slots_.size();
  handed_out_ = gradient_.size();
  expecting_ = true;
}

void GradientStream::arrive(size_t parameter) {
  if (!expecting_) return;
  copy_gradient(parameter);
  slots_[parameter].there = true;
  hand_out();
}

void GradientStream::copy_gradient(size_t parameter) const {
  const Slot& slot = slots_[parameter];
  torch::from_blob(gradient_.data() + slot.begin, slot.tensor.sizes(), torch::kFloat32).copy_(slot.tensor.grad());
}

void GradientStream::hand_out() {
  while (complete_ > 0 && slots_[complete_ - 1].there) --complete_;
  const uint64_t from = complete_ < slots_.size() ? slots_[complete_].begin : gradient_.size();
  if (handed_out_ - from < least_) return;
  ready_(from, handed_out_ - from);
  handed_out_ = from;
}

void GradientStream::finish() {
  expecting_ = false;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.there) continue;
    if (slot.tensor.grad().defined()) {
      copy_gradient(i);  // of earlier passes: the last one did not use this parameter
    } else {
      std::ranges::fill(gradient_.subspan(slot.begin, slot.count), 0.0f);
    }
  }
}

}  // namespace paceline
