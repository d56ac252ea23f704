// GradientMemory: places for large gradients in memory that the group moves best, so that summing them needs no copy.
//
// Autograd lets libtorch's allocator decide where a gradient lies. While this is open, an allocation of this thread
// with exactly the size of a large gradient gets a place of that size, if one is free; as a rule it is that gradient.
// When something else takes the place, or the gradient was made elsewhere, nothing breaks: holds() says so, and take()
// gives a place to copy it to. Tensors give their place back when they go.
//
// Open it for backward only: what outlives the group must not lie here.
#pragma once

#include <torch/types.h>

#include <memory>
#include <vector>

#include "paceline/comm/group.h"

namespace paceline {

class GradientMemory {
 public:
  // One place for each of `bytes`. Every rank gives the same ones.
  GradientMemory(Group& group, const std::vector<size_t>& bytes);
  ~GradientMemory();
  GradientMemory(const GradientMemory&) = delete;
  GradientMemory& operator=(const GradientMemory&) = delete;

  // For allocations of this thread. One thread at a time; another GradientMemory that is open here is closed by it.
  void open();
  void close();

  bool holds(const torch::Tensor& tensor) const;
  // An f32 tensor of this shape in a free place, its elements not set; undefined where none is free.
  torch::Tensor take(at::IntArrayRef sizes, at::IntArrayRef strides);

  class Places;

 private:
  std::shared_ptr<Places> places_;
};

}  // namespace paceline
