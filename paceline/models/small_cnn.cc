#include "paceline/models/small_cnn.h"

namespace paceline {
namespace {

struct Stage {
  int64_t channels;
  bool pool;
};
constexpr Stage kStages[] = {{16, true}, {32, true}, {64, false}};

}  // namespace

SmallCnn::SmallCnn(const ModelOptions& options) {
  int64_t in = options.channels, height = options.height(), width = options.width();
  for (const auto& [out, pool] : kStages) {
    const std::string number = std::to_string(stages_.size() + 1);
    const ConvShape shape{.in = in, .out = out, .kernel = 3, .padding = 1};
    stages_.push_back({register_module("conv" + number, std::make_shared<Conv2d>(shape)),
                       register_module("bn" + number, std::make_shared<BatchNorm2d>(out)), pool});
    in = out;
    if (pool) height /= 2, width /= 2;
  }
  fc_ = register_module("fc", std::make_shared<Linear>(in * height * width, options.classes));
}

torch::Tensor SmallCnn::forward(torch::Tensor images) {
  torch::Tensor x = channels_last(images);
  for (const Layers& stage : stages_) {
    x = stage.conv->forward(x);
    if (stage.pool) x = torch::max_pool2d(x, 2);
    x = stage.bn->forward(x, /*residual=*/{}, /*relu=*/true);
  }
  return fc_->forward(x.flatten(1));
}

}  // namespace paceline
