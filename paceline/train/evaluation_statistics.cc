#include "paceline/train/evaluation_statistics.h"

#include "paceline/models/layers.h"
#include "paceline/train/batches.h"

namespace paceline {

EvaluationStatistics::EvaluationStatistics(Model& model, const Recipe& recipe, const DatasetPair& data, Group& group)
    : live_(batch_statistics(model)) {
  if (recipe.batch_norm.recompute_batches > 0 && !live_.empty()) recompute(model, recipe, data, group);
  averaged_ = std::make_unique<AveragedStatistics>(model, group);
}

EvaluationStatistics::~EvaluationStatistics() {
  averaged_.reset();
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : own_) live_.at(name).copy_(tensor);
}

// The mean over the batches: batch number n counts 1/n of what there is then.
void EvaluationStatistics::recompute(Model& model, const Recipe& recipe, const DatasetPair& data, Group& group) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : live_) own_[name] = tensor.clone();
  const uint64_t samples = data.train->size();
  const auto batch =
      static_cast<uint64_t>(recipe.batch.local > 0 ? recipe.batch.local * group.size() : recipe.batch.global);
  const LoaderOptions options = {
      .global_batch = std::min(batch, samples), .rank = group.rank(), .ranks = group.size(), .shuffle = false};
  // Not resident: to copy the whole set for a few batches would take longer than to copy these.
  const auto batches = make_batches({data.train, data.normalisation, options}, live_.begin()->second.device(),
                                    {.channels_last = true}, "never");
  const bool was_training = model.is_training();
  model.train();
  for (int64_t number = 1; number <= recipe.batch_norm.recompute_batches; ++number) {
    for (const auto& module : model.modules())
      if (auto* layer = dynamic_cast<BatchNorm2d*>(module.get()))
        layer->set_momentum(1.0 / static_cast<double>(number));
    const TrainingBatch& next = batches->next();
    if (next.count > 0) model.forward(next.images);
  }
  for (const auto& module : model.modules())
    if (auto* layer = dynamic_cast<BatchNorm2d*>(module.get())) layer->set_momentum(BatchNorm2d::kMomentum);
  model.train(was_training);
}

}  // namespace paceline
