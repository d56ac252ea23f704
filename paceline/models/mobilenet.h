// MobileNet v1 (Howard et al., 2017), width 1: each 3x3 convolution is split into one per channel (depthwise) and a 1x1
// (pointwise). torchvision has only later versions; names follow its way of numbering: features.N.0 a convolution,
// features.N.1 its normalisation.
#pragma once

#include <memory>
#include <vector>

#include "paceline/models/conv_block.h"
#include "paceline/models/model.h"

namespace paceline {

class MobileNetV1 : public Model {
 public:
  explicit MobileNetV1(const ModelOptions& options);
  torch::Tensor forward(torch::Tensor images) override;

 private:
  std::vector<ConvBlock> blocks_;  // the stem, then depthwise and pointwise in turn
  std::shared_ptr<Linear> classifier_;
};

}  // namespace paceline
