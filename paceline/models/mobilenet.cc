#include "paceline/models/mobilenet.h"

namespace paceline {
namespace {

struct Pair {  // a depthwise convolution with this stride, then a pointwise one to this many channels
  int64_t out, stride;
};
constexpr Pair kPairs[] = {{64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2}, {512, 1},
                           {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1}};
constexpr int64_t kStemChannels = 32;

}  // namespace

MobileNetV1::MobileNetV1(const ModelOptions& options) {
  const auto features = register_module("features", std::make_shared<torch::nn::Module>());
  auto add = [&](const ConvShape& shape) {
    const auto holder =
        features->register_module(std::to_string(blocks_.size()), std::make_shared<torch::nn::Module>());
    blocks_.push_back(ConvBlock(*holder, {.conv = "0", .bn = "1", .shape = shape}));
  };
  add({.in = options.channels, .out = kStemChannels, .kernel = 3, .stride = 2, .padding = 1});
  int64_t in = kStemChannels;
  for (const Pair& pair : kPairs) {
    add({.in = in, .out = in, .kernel = 3, .stride = pair.stride, .padding = 1, .groups = in});
    add({.in = in, .out = pair.out, .kernel = 1});
    in = pair.out;
  }
  classifier_ = register_module("classifier", std::make_shared<Linear>(in, options.classes));
}

torch::Tensor MobileNetV1::forward(torch::Tensor images) {
  torch::Tensor x = channels_last(images);
  for (const ConvBlock& block : blocks_) x = block.forward(x);
  return classifier_->forward(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
}

}  // namespace paceline
