// SumOverRanks: how a layer of the model adds up over the ranks, and how autograd keeps that for backward.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/types.h>

#include <functional>
#include <utility>

namespace paceline {

// A vector of f64 on the CPU becomes its sum over the ranks. All ranks call it equally often, in the same order.
using SumOverRanks = std::function<void(torch::Tensor&)>;

// For an AutogradContext's saved_data.
class HeldSum : public torch::CustomClassHolder {
 public:
  static c10::IValue hold(SumOverRanks sum) {
    return c10::IValue::make_capsule(c10::make_intrusive<HeldSum>(std::move(sum)));
  }
  // REQUIRES: `held` is what hold() returned.
  static const SumOverRanks& of(const c10::IValue& held) { return static_cast<HeldSum&>(*held.toCapsule()).sum_; }

  explicit HeldSum(SumOverRanks sum) : sum_(std::move(sum)) {}

 private:
  SumOverRanks sum_;
};

}  // namespace paceline
