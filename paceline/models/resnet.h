// Residual networks (He et al., 2015) in the v1.5 form: a bottleneck's stride is in its 3x3 convolution.
// Names and shapes are torchvision's. small_resnet.h has the plans for 28 to 32 pixels.
#pragma once

#include <memory>
#include <vector>

#include "paceline/models/conv_block.h"
#include "paceline/models/model.h"

namespace paceline {

struct ResNetPlan {
  enum class Block {
    basic,
    bottleneck
  };                                   // two 3x3 convolutions; 1x1, 3x3, 1x1 with four times the channels at the end
  enum class Stem { strided, plain };  // 7x7 and a pool, which quarter the image; or one 3x3 that keeps it

  Block block = Block::basic;
  std::vector<int> blocks;  // in each stage; a stage halves the image (the first does not) and doubles the channels
  int64_t width = 64;       // channels of the stem and of the first stage
  Stem stem = Stem::strided;
};

ResNetPlan resnet18_plan();
ResNetPlan resnet34_plan();
ResNetPlan resnet50_plan();
ResNetPlan resnet101_plan();

class ResidualBlock : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(const torch::Tensor& images) = 0;
};

class ResNet : public Model {
 public:
  ResNet(const ResNetPlan& plan, const ModelOptions& options);
  torch::Tensor forward(torch::Tensor images) override;

 private:
  ResNetPlan::Stem stem_kind_;
  ConvBlock stem_;
  std::vector<std::shared_ptr<ResidualBlock>> blocks_;  // of all stages, in order
  std::shared_ptr<Linear> fc_;
};

}  // namespace paceline
