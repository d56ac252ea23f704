// Losses, summed over samples: whoever knows the global batch divides, so that ranks with fewer samples weigh less.
#pragma once

#include <torch/types.h>

#include "paceline/core/recipe.h"

namespace paceline {

// cross_entropy: -Σ_k t_k log softmax(logits)_k with t = (1-ε)·onehot + ε/K, ε = label_smoothing.
// mse: mean over the classes of (logits - onehot)².
torch::Tensor loss_sum(const Recipe::Loss& loss, const torch::Tensor& logits, const torch::Tensor& labels);

// How many samples have their label among the k largest logits.
torch::Tensor correct_top1(const torch::Tensor& logits, const torch::Tensor& labels);
// With 5 classes or fewer every sample counts as right: top5_tells() is false.
torch::Tensor correct_top5(const torch::Tensor& logits,
                           const torch::Tensor& labels);  // of all classes when fewer than 5
inline bool top5_tells(int64_t classes) { return classes > 5; }

}  // namespace paceline
