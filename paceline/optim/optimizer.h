// Optimizer: turns gradients into a step of the parameters.
//
// Rates come from a schedule with each step; an optimizer holds only what it accumulates (momentum). That state has a
// name per tensor, goes into checkpoints, and comes back bit for bit.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/recipe.h"
#include "paceline/core/registry.h"
#include "paceline/optim/parameter.h"

namespace paceline {

class WeightAverage;
struct RateProbes;

struct StepCoefficients {
  double rate = 0;
  double momentum = 0;
  double gradient_scale = 1;  // every gradient is multiplied by it (clipping)
  double epoch = 0;           // where the step begins, a real number

  // For loss scaling without waiting for the device; one float each, where the parameters are; undefined: not there.
  torch::Tensor found_inf = {};      // not 0: the step changes nothing, and is not counted
  torch::Tensor inverse_scale = {};  // every gradient is multiplied by it, too

  const RateProbes* probes = nullptr;  // for an optimizer that finds its own rate (rate_finding.h)
};

class Optimizer {
 public:
  using State = std::map<std::string, torch::Tensor>;

  virtual ~Optimizer() = default;

  // Parameters without a gradient are left as they are.
  virtual void step(const StepCoefficients& coefficients) = 0;

  // What a step does on the host: hands the device its coefficients. step() calls it by itself; alone it
  // goes before each replay of a step that was captured in a CUDA graph. Refused (InternalError) by optimizers whose
  // step cannot be replayed.
  virtual void prepare(const StepCoefficients& coefficients);

  // Whether a step with these coefficients may be captured, and until when it then serves: as long as this number stays
  // the same. Nothing: such a step must be taken.
  virtual std::optional<int64_t> capture_stage(const StepCoefficients&) const { return std::nullopt; }

  // The live tensors, not copies. Loading copies into them; anything missing, unexpected or of another shape:
  // DataError.
  virtual State state() const = 0;
  virtual void load_state(const State& saved, const std::string& source);

  // What a step makes of the rate that it is given; as things stand after the last one.
  virtual double rate_for(double scheduled) const { return scheduled; }

  // The average of the weights that evaluation should use; null: the weights themselves.
  virtual WeightAverage* weight_average() { return nullptr; }
};

// Copies into the live tensors of the same names. Nothing is copied when anything differs: DataError names `source`.
void copy_state(const Optimizer::State& saved, const Optimizer::State& live, const std::string& source);

// Loads the state of an optimizer around another: `own` are the live tensors that it has beside those of `inner`, which
// loads its part itself: it may have to prepare for it.
void load_around(Optimizer& inner, const Optimizer::State& own, const Optimizer::State& saved,
                 const std::string& source);

// For updates that take their coefficients from the host: found_inf and inverse_scale are read (which waits for their
// device) and worked into the others. Nothing: skip the step.
std::optional<StepCoefficients> read_scaling(const StepCoefficients& coefficients);

using OptimizerFactory = std::function<std::unique_ptr<Optimizer>(std::vector<Parameter>, const Recipe::Optimizer&)>;

Registry<OptimizerFactory> builtin_optimizers();

}  // namespace paceline
