// Hybrid gradient descent (Lu): a linear-scaling AdaBound warm-up until epoch T, then SGD with LARS.
//
// During the warm-up each element has a rate of its own, adaptive_rate/√v, between bounds that close in on the rate of
// the schedule (lr·N), which should stay constant for so long; without bias correction. The hand-over keeps the weights
// and drops both moments. The memory of a stage is there only while it lasts.
#pragma once

#include <optional>

#include "paceline/optim/bounded_moments.h"
#include "paceline/optim/lars.h"

namespace paceline {

struct HybridDescentOptions {
  double warmup_epochs = 10;    // T
  double adaptive_rate = 1e-3;  // AdaBound's alpha
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;  // the least √v of the warm-up; that of LARS is its own
  LarsOptions lars = {};  // the second stage, which alone decays weights
};

class HybridDescent : public Optimizer {
 public:
  HybridDescent(std::vector<Parameter> parameters, HybridDescentOptions options);
  void step(const StepCoefficients& coefficients) override;
  void prepare(const StepCoefficients& coefficients) override;  // a graph of the warm-up serves until the hand-over
  std::optional<int64_t> capture_stage(const StepCoefficients& coefficients) const override;

  // "first/<parameter>", "second/<parameter>" before the hand-over, that of LARS after it.
  State state() const override;
  // Takes the state of either stage, and continues in that one.
  void load_state(const State& saved, const std::string& source) override;

 private:
  AdaboundCoefficients warmup(const StepCoefficients& coefficients) const;
  bool is_over(const StepCoefficients& coefficients) const { return coefficients.epoch >= options_.warmup_epochs; }
  void begin_warmup();
  void hand_over();

  std::vector<Parameter> parameters_;
  HybridDescentOptions options_;
  std::optional<BoundedMoments> moments_;  // one of the two
  std::optional<Lars> lars_;
};

}  // namespace paceline
