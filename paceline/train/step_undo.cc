#include "paceline/train/step_undo.h"

namespace paceline {

StepUndo::StepUndo(const Model& model, Reducer& reducer) : reducer_(reducer) {
  for (const torch::Tensor& buffer : model.buffers()) buffers_.push_back({buffer, torch::empty_like(buffer)});
  for (const auto& module : model.modules())
    if (auto* layer = dynamic_cast<BatchNorm2d*>(module.get())) normalisations_.push_back({layer, 0});
}

void StepUndo::remember() {
  const torch::NoGradGuard no_grad;
  for (const Buffer& buffer : buffers_) buffer.kept.copy_(buffer.live);
  for (Normalisation& each : normalisations_) each.correction = each.layer->correction();
  debts_ = reducer_.state();
}

void StepUndo::undo() {
  const torch::NoGradGuard no_grad;
  for (const Buffer& buffer : buffers_) buffer.live.copy_(buffer.kept);
  for (const Normalisation& each : normalisations_) each.layer->set_correction(each.correction);
  if (!debts_.empty()) reducer_.load_state(debts_);
}

void scale_debts(Reducer& reducer, double factor) {
  if (factor == 1) return;
  auto debts = reducer.state();
  if (debts.empty()) return;
  for (auto& [name, debt] : debts) debt.mul_(factor);
  reducer.load_state(debts);
}

}  // namespace paceline
