#include "paceline/train/loss.h"

#include "paceline/core/check.h"

namespace paceline {

torch::Tensor loss_sum(const Recipe::Loss& loss, const torch::Tensor& logits, const torch::Tensor& labels) {
  if (loss.name == "cross_entropy") {
    return torch::cross_entropy_loss(logits, labels, /*weight=*/{}, at::Reduction::Sum, /*ignore_index=*/-100,
                                     loss.label_smoothing);
  }
  CHECK_EQ(loss.name, "mse");
  const torch::Tensor targets = torch::one_hot(labels, logits.size(1)).to(logits.dtype());
  return torch::mse_loss(logits, targets, at::Reduction::Sum) / logits.size(1);
}

torch::Tensor correct_top1(const torch::Tensor& logits, const torch::Tensor& labels) {
  return logits.argmax(1).eq(labels).sum();
}

torch::Tensor correct_top5(const torch::Tensor& logits, const torch::Tensor& labels) {
  const int64_t k = std::min<int64_t>(5, logits.size(1));
  return std::get<1>(logits.topk(k, 1)).eq(labels.unsqueeze(1)).sum();
}

}  // namespace paceline
