#include "paceline/data/dataset_outline.h"

#include <map>

#include "paceline/core/check.h"

namespace paceline {
namespace {

class DatasetOutline final : public Dataset {
 public:
  DatasetOutline(ImageShape shape, int64_t classes) : shape_(shape), classes_(classes) {}

  size_t size() const override { return 0; }
  ImageShape shape() const override { return shape_; }
  int64_t classes() const override { return classes_; }
  std::span<const uint8_t> image(size_t index, std::span<uint8_t>) const override {
    CHECK_LT(index, size());
    return {};
  }
  int64_t label(size_t index) const override {
    CHECK_LT(index, size());
    return 0;
  }

 private:
  ImageShape shape_;
  int64_t classes_;
};

ImageShape square(int64_t channels, int64_t side) { return {.channels = channels, .height = side, .width = side}; }

}  // namespace

std::unique_ptr<Dataset> dataset_outline(const Recipe::Data& data) {
  if (data.name == "synthetic")
    return std::make_unique<DatasetOutline>(square(data.channels, data.image_size), data.classes);
  const std::map<std::string, DatasetOutline> published = {{"fashion_mnist", {square(1, 28), 10}},
                                                           {"mnist", {square(1, 28), 10}},
                                                           {"cifar10", {square(3, 32), 10}},
                                                           {"cifar100", {square(3, 32), 100}},
                                                           {"tiny_imagenet", {square(3, 64), 200}}};
  const auto found = published.find(data.name);
  return found == published.end() ? nullptr : std::make_unique<DatasetOutline>(found->second);
}

}  // namespace paceline
