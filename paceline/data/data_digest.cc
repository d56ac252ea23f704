#include "paceline/data/data_digest.h"

#include <algorithm>

namespace paceline {
namespace {

constexpr size_t kHashedSamples = 16;
constexpr size_t kDigits = 16;

}  // namespace

void hash_samples(const Dataset& data, Sha256& hash) {
  std::vector<uint8_t> scratch(data.shape().elements());
  const size_t count = std::min(kHashedSamples, data.size());
  for (size_t i = 0; i < count; ++i) {
    const size_t index = count == 1 ? 0 : i * (data.size() - 1) / (count - 1);
    const std::span<const uint8_t> pixels = data.image(index, scratch);
    const int64_t label = data.label(index);
    hash.update(pixels.data(), pixels.size());
    hash.update(&label, sizeof label);
  }
}

void hash_normalisation(const Normalisation& normalisation, Sha256& hash) {
  for (const std::vector<float>* figures : {&normalisation.mean, &normalisation.deviation})
    hash.update(figures->data(), figures->size() * sizeof(float));
}

std::string training_digest(const DatasetPair& data) {
  const ImageShape shape = data.train->shape();
  const int64_t sizes[] = {shape.channels, shape.height, shape.width, data.train->classes()};
  Sha256 hash;
  hash.update(sizes, sizeof sizes);
  hash_samples(*data.train, hash);
  hash_normalisation(data.normalisation, hash);
  return hash.hex().substr(0, kDigits);
}

}  // namespace paceline
