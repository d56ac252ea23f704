// For tests: a network of 8 x 8 pixels, known as "tiny". Without batch normalisation, whose statistics depend on how a
// batch is shared.
#pragma once

#include <torch/nn.h>

#include "paceline/train/catalog.h"

namespace paceline {

class TinyMlp : public Model {
 public:
  explicit TinyMlp(const ModelOptions& options) {
    layers_ =
        register_module("layers", torch::nn::Sequential(torch::nn::Flatten(), torch::nn::Linear(64, 32),
                                                        torch::nn::ReLU(), torch::nn::Linear(32, options.classes)));
  }
  torch::Tensor forward(torch::Tensor images) override { return layers_->forward(images); }

 private:
  torch::nn::Sequential layers_ = nullptr;
};

inline Catalog catalog_with_tiny() {
  Catalog catalog;
  catalog.models.add("tiny",
                     {"for tests", 8, [](const ModelOptions& options) { return std::make_shared<TinyMlp>(options); }});
  return catalog;
}

}  // namespace paceline
