// Model: images in, logits out; and the models known by name.
//
//   auto model = make_model(builtin_models(), "resnet18", {.classes = 10, .image_size = 32});
//   initialise(*model, "kaiming", seed);
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "paceline/core/registry.h"

namespace paceline {

struct ModelOptions {
  int64_t classes = 1000;
  int64_t channels = 3;      // 1: grey, 3: colour
  int64_t image_size = 224;  // height in pixels
  int64_t image_width = 0;   // 0: images are square
  double dropout = 0.5;      // of the models that have dropout: VGG and AlexNet, before their wide linear layers
  bool zero_gamma = false;   // residual blocks begin as the identity: gamma = 0 in the last BN of each

  int64_t height() const { return image_size; }
  int64_t width() const { return image_width > 0 ? image_width : image_size; }
};

class Model : public torch::nn::Module {
 public:
  // [samples, channels, height, width] -> [samples, classes], before the softmax.
  virtual torch::Tensor forward(torch::Tensor images) = 0;
};

struct ModelInfo {
  std::string summary;     // one line for `paceline models`
  int64_t smallest_input;  // height and width in pixels; below, a layer would have nothing left to work on
  std::function<std::shared_ptr<Model>(const ModelOptions&)> make;
  int64_t usual_input = 224;  // pixels it was made for; `paceline models` counts parameters there
  bool any_aspect = false;    // make() heeds ModelOptions::width(): images need not be square
};

// A program adds its own with add().
Registry<ModelInfo> builtin_models();

// The parameters are allocated but not initialised: follow with initialise() or load_state().
// Throws UsageError when there is no such model, or when the images are too small for it (naming those that take them).
std::shared_ptr<Model> make_model(const Registry<ModelInfo>& models, const std::string& name,
                                  const ModelOptions& options);

// Elements of all parameters; buffers do not count.
int64_t parameter_count(const torch::nn::Module& module);

}  // namespace paceline
