#include "paceline/train/evaluator.h"

#include "paceline/collectives/sum_over_ranks.h"
#include "paceline/train/loss.h"

namespace paceline {
namespace {

// Fixed, so that a run's accuracy does not depend on its batch size.
constexpr uint64_t kEvaluationBatch = 256;

LoaderOptions loader_options(const Recipe& recipe, const Group& group, uint64_t samples) {
  const auto ranks = static_cast<uint64_t>(group.size());
  return {.global_batch = std::min(kEvaluationBatch * ranks, samples),
          .rank = group.rank(),
          .ranks = group.size(),
          .threads = static_cast<int>(recipe.data.loader_threads),
          .prefetch_batches = 2,
          .shuffle = false};
}

}  // namespace

Evaluator::Evaluator(const DatasetPair& data, const Recipe& recipe, Group& group, torch::Device device)
    : loss_(recipe.loss),
      group_(group),
      samples_(data.test->size()),
      loader_(data.test, data.normalisation, loader_options(recipe, group, samples_)),
      tensors_(loader_, device) {}

Evaluation Evaluator::operator()(Model& model) {
  const torch::InferenceMode inference;
  const bool was_training = model.is_training();
  model.eval();
  std::vector<double> loss(1);
  std::vector<int64_t> counts(2);
  for (uint64_t seen = 0; seen < samples_;) {
    const Batch& batch = loader_.next();
    seen += batch.global_count;
    if (batch.count == 0) continue;
    const auto [images, labels] = tensors_.of(batch);
    const torch::Tensor logits = model.forward(images);
    loss[0] += loss_sum(loss_, logits, labels).item<double>();
    counts[0] += correct_top1(logits, labels).item<int64_t>();
    counts[1] += correct_top5(logits, labels).item<int64_t>();
  }
  model.train(was_training);

  sum_over_ranks(group_, view(loss));
  sum_over_ranks(group_, view(counts));
  const auto samples = static_cast<double>(samples_);
  return {.samples = static_cast<int64_t>(samples_),
          .loss = loss[0] / samples,
          .top1 = static_cast<double>(counts[0]) / samples,
          .top5 = static_cast<double>(counts[1]) / samples};
}

}  // namespace paceline
