#include "paceline/optim/weight_average.h"

#include "paceline/core/check.h"
#include "paceline/kernels/average.h"

namespace paceline {
namespace {

class Averaging : public Optimizer {
 public:
  Averaging(std::unique_ptr<Optimizer> optimizer, std::vector<Parameter> parameters, double decay)
      : optimizer_(std::move(optimizer)), average_(std::move(parameters), decay) {}

  void step(const StepCoefficients& coefficients) override {
    optimizer_->step(coefficients);
    average_.update();
  }

  State state() const override {
    State state = optimizer_->state();
    average_.add_to(state);
    return state;
  }

  // The optimizer loads its own part: it may have to prepare for it.
  void load_state(const State& saved, const std::string& source) override {
    State own;
    average_.add_to(own);
    State rest = saved;
    for (const auto& [name, tensor] : own) rest.erase(name);
    optimizer_->load_state(rest, source);
    Optimizer::load_state(saved, source);
  }

  WeightAverage* weight_average() override { return &average_; }

 private:
  std::unique_ptr<Optimizer> optimizer_;
  WeightAverage average_;
};

}  // namespace

WeightAverage::WeightAverage(std::vector<Parameter> parameters, double decay)
    : parameters_(std::move(parameters)), average_("average", parameters_), decay_(decay) {}

void WeightAverage::update() {
  CHECK_TRUE(!swapped_, "the average is in the place of the weights");
  const torch::NoGradGuard no_grad;
  const bool first = (*updates_.data_ptr<int64_t>())++ == 0;
  const double keep = first ? 0 : decay_;
  const ChunkTable table(parameters_, ChunkTable::Members::all);
  table.for_each([&](const Chunk& chunk) { average_update(average_.at(chunk), chunk.weights, chunk.count, keep); });
  for (const auto& [i, weights, gradient] : table.others()) average_.of(i).mul_(keep).add_(weights, 1 - keep);
}

void WeightAverage::swap() {
  if (*updates_.data_ptr<int64_t>() == 0) return;
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const torch::Tensor& weights = parameters_[i].tensor;
    const torch::Tensor kept = weights.clone();
    weights.copy_(average_.of(i));
    average_.of(i).copy_(kept);
  }
  swapped_ = !swapped_;
}

void WeightAverage::add_to(Optimizer::State& state) const {
  average_.add_to(state, parameters_);
  state.emplace("average_updates", updates_);
}

std::unique_ptr<Optimizer> with_weight_average(std::unique_ptr<Optimizer> optimizer, std::vector<Parameter> parameters,
                                               double decay) {
  return std::make_unique<Averaging>(std::move(optimizer), std::move(parameters), decay);
}

}  // namespace paceline
