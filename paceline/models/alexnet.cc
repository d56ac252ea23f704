#include "paceline/models/alexnet.h"

namespace paceline {
namespace {

constexpr int64_t kPooledSize = 6;
constexpr int64_t kHidden = 4096;
constexpr int64_t kFeatures = 256;  // channels after the last pool

torch::Tensor pool(const torch::Tensor& images) { return torch::max_pool2d(images, 3, /*stride=*/2); }

}  // namespace

AlexNet::AlexNet(Normalisation normalisation, const ModelOptions& options) : dropout_(options.dropout) {
  // torchvision numbers activations and pools too.
  const auto features = register_module("features", std::make_shared<torch::nn::Module>());
  auto convolution = [&](const std::string& name, const ConvShape& shape) {
    convolutions_.push_back(ConvBlock(*features, {.conv = name, .shape = shape}));
  };
  convolution("0", {.in = options.channels, .out = 64, .kernel = 11, .stride = 4, .padding = 2, .bias = true});
  convolution("3", {.in = 64, .out = 192, .kernel = 5, .padding = 2, .bias = true});
  convolution("6", {.in = 192, .out = 384, .kernel = 3, .padding = 1, .bias = true});
  convolution("8", {.in = 384, .out = 256, .kernel = 3, .padding = 1, .bias = true});
  convolution("10", {.in = 256, .out = kFeatures, .kernel = 3, .padding = 1, .bias = true});
  if (normalisation == Normalisation::after_last_pool) {
    bn_ = features->register_module("13", std::make_shared<BatchNorm2d>(kFeatures));
  }
  const auto classifier = register_module("classifier", std::make_shared<torch::nn::Module>());
  first_ = classifier->register_module("1", std::make_shared<Linear>(kFeatures * kPooledSize * kPooledSize, kHidden));
  second_ = classifier->register_module("4", std::make_shared<Linear>(kHidden, kHidden));
  last_ = classifier->register_module("6", std::make_shared<Linear>(kHidden, options.classes));
}

torch::Tensor AlexNet::forward(torch::Tensor images) {
  torch::Tensor x = pool(convolutions_[0].forward(images));
  x = pool(convolutions_[1].forward(x));
  x = convolutions_[3].forward(convolutions_[2].forward(x));
  x = pool(convolutions_[4].forward(x));
  if (bn_) x = bn_->forward(x);
  // Images of the published size have it already, and the pooling's backward on a GPU is not deterministic.
  if (x.size(2) != kPooledSize || x.size(3) != kPooledSize)
    x = torch::adaptive_avg_pool2d(x, {kPooledSize, kPooledSize});
  x = x.flatten(1);
  x = first_->forward(drop(x, dropout_, is_training())).relu_();
  x = second_->forward(drop(x, dropout_, is_training())).relu_();
  return last_->forward(x);
}

}  // namespace paceline
