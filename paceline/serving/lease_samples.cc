#include "paceline/serving/lease_samples.h"

#include <algorithm>
#include <utility>

namespace paceline {

LeaseSamples::LeaseSamples(std::shared_ptr<const Dataset> dataset, const Normalisation& normalisation,
                           Augmentation augmentation, uint64_t seed, torch::Device device)
    : dataset_(std::move(dataset)),
      shape_(dataset_->shape()),
      seed_(seed),
      sampler_(seed, dataset_->size(), /*shuffle=*/true),
      transform_(shape_, normalisation, augmentation),
      device_(device),
      scratch_(shape_.elements()) {}

TrainingBatch LeaseSamples::load(const BatchRange& range) {
  const auto count = static_cast<int64_t>(range.size());
  if (!images_.defined() || images_.size(0) < count) {
    images_ = torch::empty({count, shape_.channels, shape_.height, shape_.width}, torch::kFloat32);
    labels_ = torch::empty({count}, torch::kInt64);
  }
  const RandomKey epoch_key = RandomKey(seed_).with(range.epoch);
  const EpochOrder order = sampler_.order(range.epoch);
  float* image = images_.data_ptr<float>();
  int64_t* label = labels_.data_ptr<int64_t>();
  for (uint64_t position = range.begin; position < range.end; ++position) {
    const uint64_t index = order(position);
    const LabelledImage sample = checked_sample(*dataset_, index, scratch_);
    transform_(sample.bytes, epoch_key.with(index), image);
    image += shape_.elements();
    *label++ = sample.label;
  }
  TrainingBatch batch = {.images = images_.narrow(0, 0, count), .labels = labels_.narrow(0, 0, count)};
  if (!device_.is_cpu()) {
    batch.images = batch.images.to(device_).contiguous(torch::MemoryFormat::ChannelsLast);
    batch.labels = batch.labels.to(device_);
  }
  batch.count = batch.global_count = range.size();
  return batch;
}

}  // namespace paceline
