#include "paceline/optim/rate_finding.h"

#include "paceline/core/check.h"

namespace paceline {
namespace {

class RateFinding : public Optimizer {
 public:
  RateFinding(std::unique_ptr<Optimizer> optimizer, std::vector<Parameter> parameters,
              const BarzilaiBorweinOptions& options)
      : optimizer_(std::move(optimizer)), rate_(std::move(parameters), options), start_rate_(options.start_rate) {}

  void step(const StepCoefficients& coefficients) override {
    CHECK_TRUE(coefficients.probes != nullptr, "a step that finds its rate needs probes");
    CurvatureRate::Batch batch = coefficients.probes->batch;
    batch.schedule_share = coefficients.rate / start_rate_;
    batch.gradient_scale = coefficients.gradient_scale;
    rate_.next(batch, coefficients.probes->probes);
    StepCoefficients found = coefficients;
    found.rate = rate_for(coefficients.rate);
    optimizer_->step(found);
  }

  double rate_for(double scheduled) const override { return rate_.rate() * (scheduled / start_rate_); }

  State state() const override {
    State state = optimizer_->state();
    rate_.add_to(state);
    return state;
  }

  void load_state(const State& saved, const std::string& source) override {
    State own;
    rate_.add_to(own);
    load_around(*optimizer_, own, saved, source);
  }

  WeightAverage* weight_average() override { return optimizer_->weight_average(); }

 private:
  std::unique_ptr<Optimizer> optimizer_;
  CurvatureRate rate_;
  double start_rate_;
};

}  // namespace

std::unique_ptr<Optimizer> with_rate_finding(std::unique_ptr<Optimizer> optimizer, std::vector<Parameter> parameters,
                                             const BarzilaiBorweinOptions& options) {
  return std::make_unique<RateFinding>(std::move(optimizer), std::move(parameters), options);
}

}  // namespace paceline
