// Convolution [+ batch normalisation] [+ residual] [+ ReLU]: nearly all of a network's time is spent in this sequence,
// so this is the one place to fuse it.
#pragma once

#include <memory>
#include <string>

#include "paceline/models/layers.h"

namespace paceline {

struct ConvBlockOptions {
  std::string conv;  // the names under which the owner registers them: "conv1", "bn1"
  std::string bn;    // empty: no normalisation
  ConvShape shape;
  bool relu = true;
  double initial_gamma = 1;
};

// A view of two layers, not a module: the layers are the owner's own children, so names stay as published.
class ConvBlock {
 public:
  ConvBlock(torch::nn::Module& owner, const ConvBlockOptions& options);

  // residual, if defined, is added before the ReLU.
  torch::Tensor forward(const torch::Tensor& images, const torch::Tensor& residual = {}) const;

 private:
  std::shared_ptr<Conv2d> conv_;
  std::shared_ptr<BatchNorm2d> bn_;
  bool relu_;
};

}  // namespace paceline
