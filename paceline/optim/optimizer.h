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

struct StepCoefficients {
  double rate = 0;
  double momentum = 0;
  double gradient_scale = 1;  // every gradient is multiplied by it (clipping)
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
  void load_state(const State& saved, const std::string& source);
};

using OptimizerFactory = std::function<std::unique_ptr<Optimizer>(std::vector<Parameter>, const Recipe::Optimizer&)>;

Registry<OptimizerFactory> builtin_optimizers();

}  // namespace paceline
