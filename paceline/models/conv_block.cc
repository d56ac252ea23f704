#include "paceline/models/conv_block.h"

namespace paceline {

ConvBlock::ConvBlock(torch::nn::Module& owner, const ConvBlockOptions& options) : relu_(options.relu) {
  conv_ = owner.register_module(options.conv, std::make_shared<Conv2d>(options.shape));
  if (!options.bn.empty()) {
    bn_ = owner.register_module(options.bn, std::make_shared<BatchNorm2d>(options.shape.out, options.initial_gamma));
  }
}

torch::Tensor ConvBlock::forward(const torch::Tensor& images, const torch::Tensor& residual) const {
  const torch::Tensor out = conv_->forward(images);
  return bn_ ? bn_->forward(out, residual, relu_) : finish_block(out, residual, relu_);
}

}  // namespace paceline
