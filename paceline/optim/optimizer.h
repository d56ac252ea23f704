// Optimizer: turns gradients into a step of the parameters.
//
// Rates come from a schedule with each step; an optimizer holds only what it accumulates (momentum). That state has a
// name per tensor, goes into checkpoints, and comes back bit for bit.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "paceline/core/recipe.h"
#include "paceline/core/registry.h"
#include "paceline/optim/parameter.h"

namespace paceline {

class WeightAverage;

struct StepCoefficients {
  double rate = 0;
  double momentum = 0;
  double gradient_scale = 1;  // every gradient is multiplied by it (clipping)
  double epoch = 0;           // where the step begins, a real number
};

class Optimizer {
 public:
  using State = std::map<std::string, torch::Tensor>;

  virtual ~Optimizer() = default;

  // Parameters without a gradient are left as they are.
  virtual void step(const StepCoefficients& coefficients) = 0;

  // The live tensors, not copies. Loading copies into them; anything missing, unexpected or of another shape:
  // DataError.
  virtual State state() const = 0;
  virtual void load_state(const State& saved, const std::string& source);

  // The average of the weights that evaluation should use; null: the weights themselves.
  virtual WeightAverage* weight_average() { return nullptr; }
};

// Copies into the live tensors of the same names. Nothing is copied when anything differs: DataError names `source`.
void copy_state(const Optimizer::State& saved, const Optimizer::State& live, const std::string& source);

using OptimizerFactory = std::function<std::unique_ptr<Optimizer>(std::vector<Parameter>, const Recipe::Optimizer&)>;

Registry<OptimizerFactory> builtin_optimizers();

}  // namespace paceline
