// VGG-16 (Simonyan and Zisserman, 2014), without and with batch normalisation. Names and shapes are torchvision's; the
// last map is pooled to 7x7 whatever the image's size, so the linear layers, nine tenths of all parameters, never
// change.
#pragma once

#include <memory>
#include <vector>

#include "paceline/models/conv_block.h"
#include "paceline/models/model.h"

namespace paceline {

class Vgg16 : public Model {
 public:
  enum class Normalisation { none, batch };

  Vgg16(Normalisation normalisation, const ModelOptions& options);
  torch::Tensor forward(torch::Tensor images) override;

 private:
  std::vector<std::vector<ConvBlock>> stages_;  // a pool halves the image after each
  std::shared_ptr<Linear> first_, second_, last_;
  double dropout_;
};

}  // namespace paceline
