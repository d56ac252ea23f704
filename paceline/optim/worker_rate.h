// WorkerRate: the learning rate of one worker, from the curvature that its own steps meet (barzilai_borwein.h).
//
// Where it measures it costs a gradient (Secant::exact), with the safeguard one loss or more; in memory a copy of the
// weights, of Secant::cheap also one of the gradient.
#pragma once

#include <functional>
#include <optional>
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
    double noise = 0;                 // S², the variance of the gradients that this one is the mean of
    double gradients = 1;             // k, how many these are
    bool overflow = false;            // of the loss scale
    std::optional<double> loss = {};  // of this step, at its weights, where it is known: the safeguard asks otherwise
  };

  // This step's batch, with the same dropout and normalisation as its gradient had, at other weights.
  struct Probes {
    std::function<Tensors(const Tensors& weights)> gradient_at = {};  // for Secant::exact
    std::function<double(const Tensors& weights)> loss_at = {};       // for the safeguard
  };

  WorkerRate(std::vector<Parameter> parameters, const BarzilaiBorweinOptions& options);

  // The rate of this step. To be called with its gradients in place and the weights not yet updated.
  double next(const Batch& batch, const Probes& probes);

  // "rate" (and the last batch's samples, steps and what was learnt), "last_weights/<parameter>",
  // "last_gradient/<parameter>"
  Optimizer::State state() const;
  void load_state(const Optimizer::State& saved, const std::string& source);

 private:
  enum Number { rate_now, last_samples, steps, followed, downhill, curvature, numbers };
  double& number(Number which) const { return numbers_.data_ptr<double>()[which]; }
  SecantMeasurement measure(const Batch& batch, const Probes& probes) const;
  Tensors stepped(double rate) const;
  void keep_what_was_learnt();
  double safeguarded(const Batch& batch, const Probes& probes) const;
  void remember();

  std::vector<Parameter> parameters_;
  BarzilaiBorweinOptions options_;
  BarzilaiBorweinRate rate_;
  StateTensors last_weights_, last_gradient_;
  torch::Tensor numbers_;  // f64; last_samples is 0 where the last step was not remembered
};

}  // namespace paceline
