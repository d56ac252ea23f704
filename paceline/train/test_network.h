// For tests: a network of 8 x 8 pixels, known as "tiny", and recipes that train it. Without batch normalisation, whose
// statistics depend on how a batch is shared.
#pragma once

#include <torch/nn.h>

#include <string>
#include <vector>

#include "paceline/core/recipe.h"
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

// 100 samples in batches of 32: an epoch is 32 + 32 + 32 + 4, so that with 5 ranks or more some have none in its last
// step. `more` are further lines of TOML.
inline Recipe tiny_recipe(const std::string& more, const std::vector<std::string>& overrides) {
  return parse_recipe(R"(
    [model]
    name = "tiny"
    [data]
    name = "synthetic"
    train_samples = 100
    test_samples = 37
    channels = 1
    image_size = 8
    classes = 4
    [batch]
    global = 32
  )" + more,
                      "tiny.toml", overrides);
}

inline Catalog catalog_with_tiny() {
  Catalog catalog;
  catalog.models.add("tiny",
                     {"for tests", 8, [](const ModelOptions& options) { return std::make_shared<TinyMlp>(options); }});
  return catalog;
}

}  // namespace paceline
