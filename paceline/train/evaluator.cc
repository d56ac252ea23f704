#include "paceline/train/evaluator.h"

#include <algorithm>

#include "paceline/collectives/sum_over_ranks.h"
#include "paceline/train/loss.h"

namespace paceline {
namespace {

// Samples of a rank: fixed, so that a run's accuracy does not depend on its batch size. A GPU needs more of small
// images to be busy.
uint64_t evaluation_batch(ImageShape shape, torch::Device device) {
  constexpr uint64_t kLeast = 256, kMost = 2048, kPixels = 1 << 21;
  if (device.is_cpu()) return kLeast;
  return std::clamp(kPixels / static_cast<uint64_t>(shape.height * shape.width), kLeast, kMost);
}

LoaderOptions loader_options(const Recipe& recipe, const Group& group, const Dataset& data, torch::Device device) {
  const auto ranks = static_cast<uint64_t>(group.size());
  return {.global_batch = std::min<uint64_t>(evaluation_batch(data.shape(), device) * ranks, data.size()),
          .rank = group.rank(),
          .ranks = group.size(),
          .threads = static_cast<int>(recipe.data.loader_threads),
          .prefetch_batches = 2,
          .shuffle = false};
}

}  // namespace

Evaluator::Evaluator(const DatasetPair& data, const Recipe& recipe, Group& group, torch::Device device,
                     std::stop_token stop)
    : loss_(recipe.loss),
      group_(group),
      device_(device),
      samples_(data.test->size()),
      batches_(make_batches({data.test, data.normalisation, loader_options(recipe, group, *data.test, device)}, device,
                            {.channels_last = true}, recipe.data.resident)),
      stop_(std::move(stop)) {}

// All ranks break off after the same batch.
bool Evaluator::is_broken_off() {
  std::vector<int64_t> asked = {stop_.stop_requested() ? 1 : 0};
  sum_over_ranks(group_, view(asked));
  return asked[0] > 0;
}

std::optional<Evaluation> Evaluator::operator()(Model& model) {
  const torch::InferenceMode inference;
  const bool was_training = model.is_training();
  model.eval();
  torch::Tensor loss_total = torch::zeros({}, torch::TensorOptions(torch::kFloat64).device(device_));
  torch::Tensor top1 = torch::zeros({}, torch::TensorOptions(torch::kInt64).device(device_));
  torch::Tensor top5 = torch::zeros_like(top1);
  constexpr int kAskEvery = 16;  // batches
  int made = 0;
  for (uint64_t seen = 0; seen < samples_;) {
    if (++made % kAskEvery == 0 && is_broken_off()) {
      model.train(was_training);
      return std::nullopt;
    }
    const TrainingBatch& batch = batches_->next();
    seen += batch.global_count;
    if (batch.count == 0) continue;
    const torch::Tensor logits = model.forward(batch.images);
    loss_total += loss_sum(loss_, logits, batch.labels).to(torch::kFloat64);
    top1 += correct_top1(logits, batch.labels);
    top5 += correct_top5(logits, batch.labels);
  }
  model.train(was_training);
  // Only now: to read a number is to wait for the device.
  std::vector<double> loss = {loss_total.item<double>()};
  std::vector<int64_t> counts = {top1.item<int64_t>(), top5.item<int64_t>()};

  sum_over_ranks(group_, view(loss));
  sum_over_ranks(group_, view(counts));
  const auto samples = static_cast<double>(samples_);
  return Evaluation{.samples = static_cast<int64_t>(samples_),
                    .loss = loss[0] / samples,
                    .top1 = static_cast<double>(counts[0]) / samples,
                    .top5 = static_cast<double>(counts[1]) / samples};
}

}  // namespace paceline
