#include "paceline/models/vgg.h"

namespace paceline {
namespace {

constexpr int64_t kPooledSize = 7;
constexpr int64_t kHidden = 4096;

struct VggStage {
  int convolutions;
  int64_t channels;
};
constexpr VggStage kVggStages[] = {{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}};

}  // namespace

Vgg16::Vgg16(Normalisation normalisation, const ModelOptions& options) : dropout_(options.dropout) {
  const bool normalised = normalisation == Normalisation::batch;
  const auto features = register_module("features", std::make_shared<torch::nn::Module>());
  int64_t in = options.channels;
  int index = 0;  // torchvision numbers convolutions, normalisations, activations and pools alike
  for (const VggStage& stage : kVggStages) {
    auto& blocks = stages_.emplace_back();
    for (int i = 0; i < stage.convolutions; ++i) {
      blocks.push_back(
          ConvBlock(*features, {.conv = std::to_string(index),
                                .bn = normalised ? std::to_string(index + 1) : "",
                                .shape = {.in = in, .out = stage.channels, .kernel = 3, .padding = 1, .bias = true}}));
      in = stage.channels;
      index += normalised ? 3 : 2;
    }
    ++index;
  }
  const auto classifier = register_module("classifier", std::make_shared<torch::nn::Module>());
  first_ = classifier->register_module("0", std::make_shared<Linear>(in * kPooledSize * kPooledSize, kHidden));
  second_ = classifier->register_module("3", std::make_shared<Linear>(kHidden, kHidden));
  last_ = classifier->register_module("6", std::make_shared<Linear>(kHidden, options.classes));
}

torch::Tensor Vgg16::forward(torch::Tensor images) {
  torch::Tensor x = std::move(images);
  for (const auto& stage : stages_) {
    for (const ConvBlock& block : stage) x = block.forward(x);
    x = torch::max_pool2d(x, 2, /*stride=*/2);
  }
  // Images of the published size have it already, and the pooling's backward on a GPU is not deterministic.
  if (x.size(2) != kPooledSize || x.size(3) != kPooledSize)
    x = torch::adaptive_avg_pool2d(x, {kPooledSize, kPooledSize});
  x = x.flatten(1);
  x = drop(first_->forward(x).relu_(), dropout_, is_training());
  x = drop(second_->forward(x).relu_(), dropout_, is_training());
  return last_->forward(x);
}

}  // namespace paceline
