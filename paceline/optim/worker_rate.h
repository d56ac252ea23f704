// WorkerRate: the learning rate of one worker, from the curvature that its own steps meet (barzilai_borwein.h).
//
// Costs a copy of the weights; in exact mode also a gradient per step, otherwise a copy of the gradient; with the
// safeguard two or more losses per step.
#pragma once

#include <functional>
#include <vector>

#include "paceline/optim/barzilai_borwein.h"
#include "paceline/optim/state_tensors.h"

namespace paceline {

class WorkerRate {
 public:
  using Tensors = std::vector<torch::Tensor>;  // one per parameter, in their order

  struct Batch {
    double samples = 1;
    double data_samples = 1;
    double noise = 0;       // S², the variance of the gradients that this one is the mean of
    double gradients = 1;   // k, how many these are
    bool overflow = false;  // of the loss scale
  };

  // This step's batch, with the same dropout and normalisation as its gradient had, at other weights.
  struct Probes {
    std::function<Tensors(const Tensors& weights)> gradient_at = {};  // for exact mode
    std::function<double(const Tensors& weights)> loss_at = {};       // for the safeguard
  };

  WorkerRate(std::vector<Parameter> parameters, const BarzilaiBorweinOptions& options);

  // The rate of this step. To be called with its gradients in place and the weights not yet updated.
  double next(const Batch& batch, const Probes& probes);

  // "rate" (and the last batch's samples), "last_weights/<parameter>", "last_gradient/<parameter>"
  Optimizer::State state() const;
  void load_state(const Optimizer::State& saved, const std::string& source);

 private:
  SecantMeasurement measure(const Batch& batch, const Probes& probes) const;
  double safeguarded(double gradient_squared, const Probes& probes) const;
  void remember(const Batch& batch);

  std::vector<Parameter> parameters_;
  BarzilaiBorweinOptions options_;
  BarzilaiBorweinRate rate_;
  StateTensors last_weights_, last_gradient_;
  torch::Tensor numbers_;  // the rate; samples of the last batch, 0: there was none
};

}  // namespace paceline
