#include "paceline/train/step_probes.h"

namespace paceline {

StepProbes::Tensors StepProbes::copies_of_gradients() const {
  Tensors gradients;
  for (const Parameter& parameter : parameters_) {
    const torch::Tensor& gradient = parameter.tensor.grad();
    gradients.push_back(gradient.defined() ? gradient.clone() : gradient);
  }
  return gradients;
}

// The sums lie where those of the next gradient will: both are copied.
StepProbes::Tensors StepProbes::gradient_at(const Tensors& weights, const std::function<void()>& make) {
  const Tensors own = copies_of_gradients();
  undo_.remember();
  Tensors found;
  {
    const BorrowedWeights borrowed(parameters_, weights);
    make();
    found = copies_of_gradients();
  }
  undo_.undo();
  for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].tensor.mutable_grad() = own[i];
  return found;
}

double StepProbes::loss_at(const Tensors& weights, const std::function<double()>& ask) {
  undo_.remember();
  const double loss = [&] {
    const BorrowedWeights borrowed(parameters_, weights);
    return ask();
  }();
  undo_.undo();
  return loss;
}

}  // namespace paceline
