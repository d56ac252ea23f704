// StepProbes: what a step's samples say at other weights, in the middle of the step. Afterwards everything is as it
// was: weights, gradients, statistics of batch normalisation, what a codec owes.
#pragma once

#include <functional>
#include <vector>

#include "paceline/optim/borrowed_weights.h"
#include "paceline/optim/rate_finding.h"
#include "paceline/train/step_undo.h"

namespace paceline {

// Whether steps find their own rate, beginning with the recipe's. (Workers of a parameter server do so by themselves.)
inline bool finds_rate(const Recipe& recipe) {
  return recipe.sync.policy == "allreduce" && recipe.sync.rate == "barzilai_borwein";
}

class StepProbes {
 public:
  using Tensors = CurvatureRate::Tensors;

  StepProbes(const Model& model, Reducer& reducer, std::vector<Parameter> parameters)
      : parameters_(std::move(parameters)), undo_(model, reducer) {}

  // `make` leaves the gradients, summed over the ranks, in the parameters. Every rank calls it.
  Tensors gradient_at(const Tensors& weights, const std::function<void()>& make);
  double loss_at(const Tensors& weights, const std::function<double()>& ask);

 private:
  Tensors copies_of_gradients() const;

  std::vector<Parameter> parameters_;
  StepUndo undo_;
};

}  // namespace paceline
