// An exponential moving average of the weights, which is often a better model than the last weights are.
//
//   const auto optimizer = with_weight_average(std::move(sgd), parameters, 0.999);
//   ...
//   {
//     const AveragedWeights swapped(optimizer->weight_average());   // the model now has the average
//     evaluate(model);
//   }                                                               // and its own weights again, to the bit
#pragma once

#include "paceline/optim/device_parameters.h"

namespace paceline {

class WeightAverage {
 public:
  // `decay`: the share of the average that an update keeps.
  WeightAverage(std::vector<Parameter> parameters, double decay);

  // Before each step; before the first one the average begins with the weights. So a first step that is skipped, also
  // where only the device knows, changes nothing.
  void begin();
  // After the step of these coefficients; what that step skips is skipped here. REQUIRES: begun, not swapped
  void update(const StepCoefficients& coefficients);
  // Whether update() may be captured in a CUDA graph, which then serves as long as the weights stay where they are.
  bool is_capturable() const { return has_begun() && on_device_.has_all(); }

  void swap();                                 // exchanges weights and average, before the first step nothing
  void add_to(Optimizer::State& state) const;  // "average/<parameter>", "average_begun"

 private:
  bool has_begun() const { return *begun_.const_data_ptr<int64_t>() != 0; }

  std::vector<Parameter> parameters_;
  StateTensors average_;
  DeviceParameters on_device_;
  torch::Tensor begun_ = torch::zeros({}, torch::kInt64);  // 0 or 1, on the CPU
  double decay_;
  bool swapped_ = false;
};

// Has the average in the place of the weights while it lives. Null: does nothing.
class AveragedWeights {
 public:
  explicit AveragedWeights(WeightAverage* average) : average_(average) {
    if (average_) average_->swap();
  }
  ~AveragedWeights() {
    if (average_) average_->swap();
  }
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  WeightAverage* average_;
};

// The same optimizer, averaging after each step. Its state is both's.
std::unique_ptr<Optimizer> with_weight_average(std::unique_ptr<Optimizer> optimizer, std::vector<Parameter> parameters,
                                               double decay);

}  // namespace paceline
