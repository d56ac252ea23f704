// GradientStream: gradients as one run of numbers that grows while backward still computes: what is complete can leave
// for the servers at once. Backward makes the last layers' gradients first, so the run is complete from its end.
#pragma once

#include <torch/csrc/autograd/variable.h>

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "paceline/serving/flat_model.h"

namespace paceline {

class GradientStream {
 public:
  // ready(begin, count): these elements of `gradient` are final. Called on the thread that backward's hooks are called
  // on, for at least `least` elements at a time; the rest is for the caller to know. The model must outlive it.
  using Ready = std::function<void(uint64_t begin, uint64_t count)>;
  GradientStream(const FlatModel& flat, std::span<float> gradient, uint64_t least, Ready ready);
  ~GradientStream();
  GradientStream(const GradientStream&) = delete;
  GradientStream& operator=(const GradientStream&) = delete;

  void expect_last_pass();  // gradients of the next backward are final: passes before it only add up
  void finish();            // after it: everything is in place, 0 for parameters that took no part in any pass

 private:
  void arrive(size_t parameter);
  void copy_gradient(size_t parameter) const;
  void hand_out();

  struct Slot {
    torch::Tensor tensor;
    uint64_t begin = 0, count = 0;
    bool there = false;
    // A pointer to a node of autograd, whose kind differs between versions of libtorch.
    decltype(torch::autograd::impl::grad_accumulator(std::declval<torch::Tensor>())) accumulator;
    uintptr_t hook = 0;
  };
  std::vector<Slot> slots_;
  std::span<float> gradient_;
  uint64_t least_;
  Ready ready_;
  bool expecting_ = false;
  size_t complete_ = 0;      // the first slot from which on all are there
  uint64_t handed_out_ = 0;  // the first element from which on all were
};

}  // namespace paceline
