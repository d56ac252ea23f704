// An optimizer that finds its own rate, from the curvature that its steps meet (curvature_rate.h).
//
//   const auto optimizer = with_rate_finding(std::move(sgd), parameters, steady_barzilai_borwein(0.1, 10));
//   optimizer->step({.rate = 0.05, .probes = &probes});   // half of what was found: a schedule counts as its share
//
// Made for steps against the gradient. With momentum the rate is that for the direction the step really has, but the
// safeguard looks at a step without it.
#pragma once

#include "paceline/optim/curvature_rate.h"

namespace paceline {

// What a step is asked beside its gradient; next() of the rate gets both.
struct RateProbes {
  CurvatureRate::Batch batch;
  CurvatureRate::Probes probes;
};

// StepCoefficients::rate is then a share of options.start_rate. Steps need StepCoefficients::probes. The state is
// both's.
std::unique_ptr<Optimizer> with_rate_finding(std::unique_ptr<Optimizer> optimizer, std::vector<Parameter> parameters,
                                             const BarzilaiBorweinOptions& options);

}  // namespace paceline
