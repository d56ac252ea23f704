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
    average_.begin();
    optimizer_->step(coefficients);
    average_.update(coefficients);
  }

  void prepare(const StepCoefficients& coefficients) override { optimizer_->prepare(coefficients); }

  std::optional<int64_t> capture_stage(const StepCoefficients& coefficients) const override {
    return average_.is_capturable() ? optimizer_->capture_stage(coefficients) : std::nullopt;
  }

  State state() const override {
    State state = optimizer_->state();
    average_.add_to(state);
    return state;
  }

  void load_state(const State& saved, const std::string& source) override {
    State own;
    average_.add_to(own);
    load_around(*optimizer_, own, saved, source);
  }

  WeightAverage* weight_average() override { return &average_; }

 private:
  std::unique_ptr<Optimizer> optimizer_;
  WeightAverage average_;
};

}  // namespace

WeightAverage::WeightAverage(std::vector<Parameter> parameters, double decay)
    : parameters_(std::move(parameters)),
      average_("average", parameters_),
      on_device_(parameters_, {&average_}),
      decay_(decay) {}

void WeightAverage::begin() {
  if (has_begun()) return;
  CHECK_TRUE(!on_device_.is_capturing(), "a replay would begin anew; the first step goes before the capture");
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) average_.of(i).copy_(parameters_[i].tensor);
  *begun_.data_ptr<int64_t>() = 1;
}

void WeightAverage::update(const StepCoefficients& coefficients) {
  CHECK_TRUE(has_begun() && !swapped_, "the average is in the place of the weights, or has not begun");
  const torch::NoGradGuard no_grad;
  constexpr auto kAll = ChunkTable::Members::all;
  on_device_.update(
      parameters_, coefficients, [&](const DeviceTable& table) { average_update_on_device(table, decay_); }, kAll);
  if (on_device_.has_all() || !read_scaling(coefficients)) return;
  const ChunkTable table(parameters_, kAll);
  table.for_each([&](const Chunk& chunk) { average_update(average_.at(chunk), chunk.weights, chunk.count, decay_); });
  for (const auto& [i, weights, gradient] : table.others())
    if (!on_device_.contains(i)) average_.of(i).mul_(decay_).add_(weights, 1 - decay_);
}

void WeightAverage::swap() {
  if (!has_begun()) return;
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
  state.emplace("average_begun", begun_);
}

std::unique_ptr<Optimizer> with_weight_average(std::unique_ptr<Optimizer> optimizer, std::vector<Parameter> parameters,
                                               double decay) {
  return std::make_unique<Averaging>(std::move(optimizer), std::move(parameters), decay);
}

}  // namespace paceline
