// AlexNet in its one-tower form (Krizhevsky, 2014), as torchvision has it; and with batch normalisation after the last
// pool (Jia et al., 2018), without which large batches do not reach the accuracy of small ones.
#pragma once

#include <memory>
#include <vector>

#include "paceline/models/conv_block.h"
#include "paceline/models/model.h"

namespace paceline {

class AlexNet : public Model {
 public:
  enum class Normalisation { none, after_last_pool };

  AlexNet(Normalisation normalisation, const ModelOptions& options);
  torch::Tensor forward(torch::Tensor images) override;

 private:
  std::vector<ConvBlock> convolutions_;
  std::shared_ptr<BatchNorm2d> bn_;  // null without normalisation
  std::shared_ptr<Linear> first_, second_, last_;
  double dropout_;
};

}  // namespace paceline
