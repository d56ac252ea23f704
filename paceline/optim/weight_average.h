// An exponential moving average of the weights, which is often a better model than the last weights are.
//
//   const auto optimizer = with_weight_average(std::move(sgd), parameters, 0.999);
//   ...
//   {
//     const AveragedWeights swapped(optimizer->weight_average());   // the model now has the average
//     evaluate(model);
//   }                                                               // and its own weights again, to the bit
#pragma once

#include "paceline/optim/state_tensors.h"

namespace paceline {

class WeightAverage {
 public:
  // Begins with the weights as they are at the first update. `decay`: the share of the average that is kept.
  WeightAverage(std::vector<Parameter> parameters, double decay);

  void update();                               // REQUIRES: not swapped
  void swap();                                 // exchanges weights and average, before the first update nothing
  void add_to(Optimizer::State& state) const;  // "average/<parameter>", "average_updates"

 private:
  std::vector<Parameter> parameters_;
  StateTensors average_;
  torch::Tensor updates_ = torch::zeros({}, torch::kInt64);  // on the CPU
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
