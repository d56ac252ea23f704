// StateTensors: what an optimizer keeps for each parameter, one tensor of the same shape and layout, at first 0.
#pragma once

#include <string>
#include <vector>

#include "paceline/optim/chunks.h"
#include "paceline/optim/optimizer.h"

namespace paceline {

class StateTensors {
 public:
  // In checkpoints they are called "<kind>/<parameter>".
  StateTensors(std::string kind, const std::vector<Parameter>& parameters) : kind_(std::move(kind)) {
    for (const Parameter& parameter : parameters) tensors_.push_back(torch::zeros_like(parameter.tensor));
  }

  float* at(const Chunk& chunk) const { return tensors_[chunk.parameter].data_ptr<float>() + chunk.begin; }
  const torch::Tensor& of(size_t parameter) const { return tensors_[parameter]; }

  void add_to(Optimizer::State& state, const std::vector<Parameter>& parameters) const {
    for (size_t i = 0; i < tensors_.size(); ++i) state.emplace(kind_ + "/" + parameters[i].name, tensors_[i]);
  }

 private:
  std::string kind_;
  std::vector<torch::Tensor> tensors_;
};

}  // namespace paceline
