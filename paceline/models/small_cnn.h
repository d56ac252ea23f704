// A small convolutional network for images of 28 to 32 pixels, grey or colour: the one to try things with.
// Three 3x3 convolutions to 16, 32 and 64 channels, the first two with a pool, and a linear layer. A pool comes before
// normalisation and ReLU, which then see a quarter of the pixels: on a CPU much of the time of a network this small.
#pragma once

#include <memory>
#include <vector>

#include "paceline/models/layers.h"
#include "paceline/models/model.h"

namespace paceline {

class SmallCnn : public Model {
 public:
  explicit SmallCnn(const ModelOptions& options);
  torch::Tensor forward(torch::Tensor images) override;

 private:
  struct Layers {
    std::shared_ptr<Conv2d> conv;
    std::shared_ptr<BatchNorm2d> bn;
    bool pool;  // halves the image between the two
  };
  std::vector<Layers> stages_;
  std::shared_ptr<Linear> fc_;
};

}  // namespace paceline
