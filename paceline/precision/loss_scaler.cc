#include "paceline/precision/loss_scaler.h"

#include "paceline/precision/device_words.h"
#include "paceline/precision/finite_check.h"

namespace paceline {

LossScaler::LossScaler(LossScale scale, torch::Device device) : host_(std::move(scale)) {
  const auto scalar = torch::TensorOptions().dtype(torch::kFloat32).device(device);
  scale_ = torch::empty({}, scalar);
  inverse_ = torch::empty({}, scalar);
  overflow_ = torch::zeros({}, scalar);
  counts_ = torch::zeros({5}, scalar.dtype(torch::kFloat64));
  copy_to_device();
}

// In place: whoever holds the tensors sees the new values.
void LossScaler::copy_to_device() {
  const LossScaleState& state = host_.state();
  scale_.fill_(state.scale);
  inverse_.fill_(1 / state.scale);
  counts_.copy_(
      torch::tensor({state.scale, static_cast<double>(state.clean_steps), static_cast<double>(state.skips_in_a_row),
                     static_cast<double>(state.skipped_steps), 0.0},
                    torch::kFloat64));
}

LossScaleMemory LossScaler::memory() const {
  double* const counts = counts_.data_ptr<double>();
  return {.scale = counts,
          .clean_steps = counts + 1,
          .skips_in_a_row = counts + 2,
          .skipped_steps = counts + 3,
          .longest_skips = counts + 4,
          .factor = scale_.data_ptr<float>(),
          .inverse = inverse_.data_ptr<float>()};
}

void LossScaler::inspect(const std::vector<torch::Tensor>& gradients) {
  overflow_.copy_(any_not_finite(gradients, overflow_.device()));
}

bool LossScaler::accept(bool known) {
  const bool overflow = overflow_.item<float>() > 0 || known;
  const double before = host_.value();
  gradient_scale_ = 1 / before;
  host_.update(overflow);
  copy_to_device();
  return !overflow;
}

void LossScaler::accept_on_device() {
  const torch::Device device = overflow_.device();
  const LossScaleRule rule = host_.rule();
  if (device.is_cpu()) return advance(memory(), overflow_.item<float>() != 0, rule);
  advance_loss_scale_on_device(memory(), overflow_.const_data_ptr<float>(), rule, kernel_stream(device));
}

void LossScaler::settle() {
  const torch::Tensor counts = counts_.cpu();
  const double* const count = counts.const_data_ptr<double>();
  const auto whole = [&](int index) { return static_cast<int64_t>(count[index]); };
  host_.settle({.scale = count[0], .clean_steps = whole(1), .skips_in_a_row = whole(2), .skipped_steps = whole(3)},
               whole(4));
  gradient_scale_ = 1 / host_.value();
  counts_.select(0, 4).zero_();
}

void LossScaler::resume(const LossScaleState& saved) {
  host_.resume(saved);
  copy_to_device();
}

}  // namespace paceline
