#include "paceline/train/gradient_pass.h"

#include "paceline/train/forward.h"
#include "paceline/train/loss.h"

namespace paceline {

PassSums GradientPass::gradients(const TrainingBatch& batch, int64_t divisor,
                                 const std::function<void()>& before_last) const {
  PassSums sums = {torch::zeros({}, numbers_), torch::zeros({}, numbers_.dtype(torch::kInt64))};
  passes_.each(batch, [&](const torch::Tensor& images, const torch::Tensor& labels, bool last) {
    const int64_t forward_ns = clock_.now_ns();
    const torch::Tensor logits = logits_of(model_, images, recipe_.train.precision);
    const torch::Tensor loss = loss_sum(recipe_.loss, logits, labels);
    note_step_part(timeline_, "forward", forward_ns, clock_.now_ns());
    const int64_t backward_ns = clock_.now_ns();
    if (last) before_last();
    const torch::Tensor share = loss / divisor;
    (scaler_ ? scaler_->scaled(share) : share).backward();
    note_step_part(timeline_, "backward", backward_ns, clock_.now_ns());
    sums.loss = sums.loss + loss.detach();
    sums.correct = sums.correct + correct_top1(logits.detach(), labels);
  });
  return sums;
}

torch::Tensor GradientPass::loss(const TrainingBatch& batch) const {
  const torch::NoGradGuard no_grad;
  torch::Tensor sum = torch::zeros({}, numbers_);
  passes_.each(batch, [&](const torch::Tensor& images, const torch::Tensor& labels, bool) {
    sum = sum + loss_sum(recipe_.loss, logits_of(model_, images, recipe_.train.precision), labels);
  });
  return sum;
}

void GradientPass::forwards(const TrainingBatch& batch, const Visit& visit) const {
  passes_.each(batch, [&](const torch::Tensor& images, const torch::Tensor&, bool) {
    visit(images, [&] { logits_of(model_, images, recipe_.train.precision); });
  });
}

}  // namespace paceline
