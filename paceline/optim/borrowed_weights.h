// BorrowedWeights: has other weights in the place of the parameters' own while it lives; then they are as they were, to
// the bit.
#pragma once

#include <vector>

#include "paceline/optim/parameter.h"

namespace paceline {

class BorrowedWeights {
 public:
  // One tensor for each parameter, of its shape.
  BorrowedWeights(std::vector<Parameter> parameters, const std::vector<torch::Tensor>& weights)
      : parameters_(std::move(parameters)) {
    for (const Parameter& parameter : parameters_) own_.push_back(parameter.tensor.detach().clone());
    put(weights);
  }
  ~BorrowedWeights() { put(own_); }
  BorrowedWeights(const BorrowedWeights&) = delete;
  BorrowedWeights& operator=(const BorrowedWeights&) = delete;

 private:
  void put(const std::vector<torch::Tensor>& weights) const {
    for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].tensor.detach().copy_(weights[i]);
  }

  std::vector<Parameter> parameters_;
  std::vector<torch::Tensor> own_;
};

}  // namespace paceline
