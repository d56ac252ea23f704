#include "paceline/serving/lease_samples.h"

#include <algorithm>
#include <utility>

namespace paceline {

LeaseSamples::LeaseSamples(std::shared_ptr<const Dataset> dataset, const Normalisation& normalisation,
                           Augmentation augmentation, uint64_t seed, torch::Device device)
    : reader_(std::move(dataset), normalisation, augmentation, seed, /*shuffle=*/true),
      device_(device),
      scratch_(reader_.shape().elements()) {}

TrainingBatch LeaseSamples::load(const BatchRange& range) {
  const auto count = static_cast<int64_t>(range.size());
  if (!images_.defined() || images_.size(0) < count) {
    const ImageShape shape = reader_.shape();
    images_ = torch::empty({count, shape.channels, shape.height, shape.width}, torch::kFloat32);
    labels_ = torch::empty({count}, torch::kInt64);
  }
  reader_.read(range, scratch_, images_.data_ptr<float>(), labels_.data_ptr<int64_t>());
  TrainingBatch batch = {.images = images_.narrow(0, 0, count), .labels = labels_.narrow(0, 0, count)};
  if (!device_.is_cpu()) {
    batch.images = batch.images.to(device_).contiguous(torch::MemoryFormat::ChannelsLast);
    batch.labels = batch.labels.to(device_);
  }
  batch.count = batch.global_count = range.size();
  return batch;
}

}  // namespace paceline
