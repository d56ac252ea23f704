// CurvatureRate: a learning rate from the curvature that the steps themselves meet (barzilai_borwein.h): that of one
// worker of a parameter server, or of all ranks together (rate_finding.h).
//
// Where it measures it costs a gradient (Secant::exact), with the safeguard one loss or more; in memory a copy of the
// weights, of Secant::cheap also one of the gradient.
#pragma once

#include <functional>
#include <vector>

#include "paceline/optim/barzilai_borwein.h"
#include "paceline/optim/state_tensors.h"

namespace paceline {

class CurvatureRate {
 public:
  using Tensors = std::vector<torch::Tensor>;  // one per parameter, in their order

  struct Batch {
    double samples = 1;
    double data_samples = 1;
    double noise = 0;           // S², the variance of the gradients that this one is the mean of
    double gradients = 1;       // k, how many these are
    bool overflow = false;      // of the loss scale
    double schedule_share = 1;  // what a schedule leaves of the rate: the step is of this times next()
    double gradient_scale = 1;  // what the step multiplies the gradients by (clipping)
  };

  // This step's batch, with the same dropout and normalisation as its gradient had, at other weights.
  struct Probes {
    std::function<Tensors(const Tensors& weights)> gradient_at = {};  // for Secant::exact
    std::function<double(const Tensors& weights)> loss_at = {};       // for the safeguard
    std::function<double()> loss = {};  // at the step's own weights, where that is known; otherwise loss_at is asked
  };

  CurvatureRate(std::vector<Parameter> parameters, const BarzilaiBorweinOptions& options);

  // The rate of this step. To be called with its gradients in place and the weights not yet updated.
  double next(const Batch& batch, const Probes& probes);

  double rate() const { return number(rate_now); }  // that next() returned last

  // All there is, as live tensors: "found_rate" (with the last batch's samples, steps and what was learnt),
  // "last_weights/<parameter>", "last_gradient/<parameter>".
  void add_to(Optimizer::State& state) const;

 private:
  enum Number { rate_now, last_samples, last_share, steps, followed, downhill, curvature, numbers };
  double& number(Number which) const { return numbers_.data_ptr<double>()[which]; }
  SecantMeasurement measure(const Batch& batch, const Probes& probes) const;
  Tensors stepped(double rate) const;
  void recall();
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
