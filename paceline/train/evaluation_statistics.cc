#include "paceline/train/evaluation_statistics.h"

#include <algorithm>

#include "paceline/precision/autocast.h"
#include "paceline/train/batches.h"
#include "paceline/train/forward.h"
#include "paceline/train/passes.h"

namespace paceline {

EvaluationStatistics::EvaluationStatistics(Model& model, const Recipe& recipe, const DatasetPair& data, Group& group,
                                           double weight)
    : live_(batch_statistics(model)) {
  if (recipe.batch_norm.recompute_batches > 0 && !live_.empty())
    weight = static_cast<double>(recompute(model, recipe, data, group));
  averaged_ = std::make_unique<AveragedStatistics>(model, group, weight);
}

EvaluationStatistics::~EvaluationStatistics() {
  averaged_.reset();
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : own_) live_.at(name).copy_(tensor);
  for (const auto& [layer, correction] : own_corrections_) layer->set_correction(correction);
}

// In parts and in the precision of training, as they were computed there.
int64_t EvaluationStatistics::recompute(Model& model, const Recipe& recipe, const DatasetPair& data, Group& group) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : live_) own_[name] = tensor.clone();
  const uint64_t samples = data.train->size();
  const auto batch =
      static_cast<uint64_t>(recipe.batch.local > 0 ? recipe.batch.local * group.size() : recipe.batch.global);
  const LoaderOptions options = {
      .global_batch = std::min(batch, samples), .rank = group.rank(), .ranks = group.size(), .shuffle = false};
  const ImageFormat format = {.dtype = autocast_type(recipe.train.precision).value_or(torch::kFloat32),
                              .channels_last = true};
  // Not resident: to copy the whole set for a few batches would take longer than to copy these.
  const auto batches =
      make_batches({data.train, data.normalisation, options}, live_.begin()->second.device(), format, "never");
  const bool was_training = model.is_training();
  model.train();
  const std::vector<BatchNorm2d*> layers = batch_norm_layers(model);
  for (BatchNorm2d* layer : layers) own_corrections_.emplace_back(layer, layer->correction());
  PooledStatistics statistics(layers);
  int64_t samples_here = 0;
  for (int64_t number = 1; number <= recipe.batch_norm.recompute_batches; ++number) {
    const TrainingBatch& next = batches->next();
    samples_here += next.labels.size(0);
    for_each_part(next, recipe.batch.micro, statistics, [&](const torch::Tensor& images, const torch::Tensor&, bool) {
      logits_of(model, images, recipe.train.precision);
    });
  }
  for (BatchNorm2d* layer : layers) layer->set_momentum(BatchNorm2d::kMomentum);
  model.train(was_training);
  return samples_here;
}

}  // namespace paceline
