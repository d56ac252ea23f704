#include "paceline/precision/loss_scaler.h"

#include "paceline/precision/finite_check.h"

namespace paceline {

LossScaler::LossScaler(LossScale scale, torch::Device device) : host_(std::move(scale)) {
  const auto scalar = torch::TensorOptions().dtype(torch::kFloat32).device(device);
  scale_ = torch::empty({}, scalar);
  inverse_ = torch::empty({}, scalar);
  overflow_ = torch::zeros({}, scalar);
  copy_to_device();
}

// In place: whoever holds the tensors sees the new values.
void LossScaler::copy_to_device() {
  scale_.fill_(host_.value());
  inverse_.fill_(1 / host_.value());
}

void LossScaler::inspect(const std::vector<torch::Tensor>& gradients) {
  overflow_.copy_(any_not_finite(gradients, overflow_.device()));
}

bool LossScaler::accept(bool known) {
  const bool overflow = overflow_.item<float>() > 0 || known;
  const double before = host_.value();
  gradient_scale_ = 1 / before;
  host_.update(overflow);
  if (host_.value() != before) copy_to_device();
  return !overflow;
}

void LossScaler::resume(const LossScaleState& saved) {
  host_.resume(saved);
  copy_to_device();
}

}  // namespace paceline
