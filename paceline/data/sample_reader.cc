#include "paceline/data/sample_reader.h"

#include <fmt/format.h>

#include <utility>

#include "paceline/core/check.h"
#include "paceline/core/error.h"

namespace paceline {
namespace {

std::shared_ptr<const Dataset> not_empty(std::shared_ptr<const Dataset> dataset) {
  CHECK_TRUE(dataset != nullptr, "samples are read from a data set");
  if (dataset->size() == 0) throw DataError("the data set holds no samples");
  return dataset;
}

}  // namespace

LabelledImage checked_sample(const Dataset& dataset, size_t index, std::span<uint8_t> scratch) {
  const LabelledImage sample = {dataset.image(index, scratch), dataset.label(index)};
  const size_t elements = dataset.shape().elements();
  if (sample.bytes.size() != elements || sample.label < 0 || sample.label >= dataset.classes()) [[unlikely]] {
    throw DataError(fmt::format("sample {}: expected {} bytes and a label below {}, found {} bytes and label {}", index,
                                elements, dataset.classes(), sample.bytes.size(), sample.label));
  }
  return sample;
}

SampleReader::SampleReader(std::shared_ptr<const Dataset> dataset, const Normalisation& normalisation,
                           Augmentation augmentation, uint64_t seed, bool shuffle)
    : dataset_(not_empty(std::move(dataset))),
      shape_(dataset_->shape()),
      seed_(seed),
      sampler_(seed, dataset_->size(), shuffle),
      transform_(shape_, normalisation, augmentation) {}

void SampleReader::read(const BatchRange& range, std::span<uint8_t> scratch, float* images, int64_t* labels) const {
  const RandomKey epoch_key = RandomKey(seed_).with(range.epoch);
  const EpochOrder order = sampler_.order(range.epoch);
  for (uint64_t position = range.begin; position < range.end; ++position) {
    const uint64_t index = order(position);
    const LabelledImage sample = checked_sample(*dataset_, index, scratch);
    transform_(sample.bytes, epoch_key.with(index), images);
    images += shape_.elements();
    *labels++ = sample.label;
  }
}

}  // namespace paceline
