#include "paceline/models/resnet.h"

#include <fmt/format.h>

#include <optional>

namespace paceline {
namespace {

constexpr int64_t kBottleneckExpansion = 4;

// The way around a block: nothing, or a 1x1 projection where the shape changes.
std::optional<ConvBlock> make_shortcut(torch::nn::Module& block, int64_t in, int64_t out, int64_t stride) {
  if (stride == 1 && in == out) return std::nullopt;
  const auto downsample = block.register_module("downsample", std::make_shared<torch::nn::Module>());
  const ConvShape projection{.in = in, .out = out, .kernel = 1, .stride = stride};
  return ConvBlock(*downsample, {.conv = "0", .bn = "1", .shape = projection, .relu = false});
}

torch::Tensor around(const std::optional<ConvBlock>& shortcut, const torch::Tensor& images) {
  return shortcut ? shortcut->forward(images) : images;
}

class BasicBlock : public ResidualBlock {
 public:
  BasicBlock(int64_t in, int64_t width, int64_t stride, double last_gamma)
      : first_(*this, {.conv = "conv1",
                       .bn = "bn1",
                       .shape = {.in = in, .out = width, .kernel = 3, .stride = stride, .padding = 1}}),
        last_(*this, {.conv = "conv2",
                      .bn = "bn2",
                      .shape = {.in = width, .out = width, .kernel = 3, .padding = 1},
                      .initial_gamma = last_gamma}),
        shortcut_(make_shortcut(*this, in, width, stride)) {}

  torch::Tensor forward(const torch::Tensor& images) override {
    return last_.forward(first_.forward(images), around(shortcut_, images));
  }

 private:
  ConvBlock first_, last_;
  std::optional<ConvBlock> shortcut_;
};

class BottleneckBlock : public ResidualBlock {
 public:
  BottleneckBlock(int64_t in, int64_t width, int64_t stride, double last_gamma)
      : narrow_(*this, {.conv = "conv1", .bn = "bn1", .shape = {.in = in, .out = width, .kernel = 1}}),
        middle_(*this, {.conv = "conv2",
                        .bn = "bn2",
                        .shape = {.in = width, .out = width, .kernel = 3, .stride = stride, .padding = 1}}),
        widen_(*this, {.conv = "conv3",
                       .bn = "bn3",
                       .shape = {.in = width, .out = width * kBottleneckExpansion, .kernel = 1},
                       .initial_gamma = last_gamma}),
        shortcut_(make_shortcut(*this, in, width * kBottleneckExpansion, stride)) {}

  torch::Tensor forward(const torch::Tensor& images) override {
    return widen_.forward(middle_.forward(narrow_.forward(images)), around(shortcut_, images));
  }

 private:
  ConvBlock narrow_, middle_, widen_;
  std::optional<ConvBlock> shortcut_;
};

std::shared_ptr<ResidualBlock> make_block(ResNetPlan::Block kind, int64_t in, int64_t width, int64_t stride,
                                          double last_gamma) {
  if (kind == ResNetPlan::Block::basic) return std::make_shared<BasicBlock>(in, width, stride, last_gamma);
  return std::make_shared<BottleneckBlock>(in, width, stride, last_gamma);
}

ConvShape stem_shape(const ResNetPlan& plan, int64_t channels) {
  if (plan.stem == ResNetPlan::Stem::plain) return {.in = channels, .out = plan.width, .kernel = 3, .padding = 1};
  return {.in = channels, .out = plan.width, .kernel = 7, .stride = 2, .padding = 3};
}

}  // namespace

ResNetPlan resnet18_plan() { return {.block = ResNetPlan::Block::basic, .blocks = {2, 2, 2, 2}}; }
ResNetPlan resnet34_plan() { return {.block = ResNetPlan::Block::basic, .blocks = {3, 4, 6, 3}}; }
ResNetPlan resnet50_plan() { return {.block = ResNetPlan::Block::bottleneck, .blocks = {3, 4, 6, 3}}; }
ResNetPlan resnet101_plan() { return {.block = ResNetPlan::Block::bottleneck, .blocks = {3, 4, 23, 3}}; }

ResNet::ResNet(const ResNetPlan& plan, const ModelOptions& options)
    : stem_kind_(plan.stem), stem_(*this, {.conv = "conv1", .bn = "bn1", .shape = stem_shape(plan, options.channels)}) {
  const double last_gamma = options.zero_gamma ? 0 : 1;
  const int64_t expansion = plan.block == ResNetPlan::Block::basic ? 1 : kBottleneckExpansion;
  int64_t in = plan.width, width = plan.width;
  for (size_t stage = 0; stage < plan.blocks.size(); ++stage) {
    const auto layer = register_module(fmt::format("layer{}", stage + 1), std::make_shared<torch::nn::Module>());
    for (int index = 0; index < plan.blocks[stage]; ++index) {
      const int64_t stride = stage > 0 && index == 0 ? 2 : 1;
      blocks_.push_back(
          layer->register_module(std::to_string(index), make_block(plan.block, in, width, stride, last_gamma)));
      in = width * expansion;
    }
    width *= 2;
  }
  fc_ = register_module("fc", std::make_shared<Linear>(in, options.classes));
}

torch::Tensor ResNet::forward(torch::Tensor images) {
  torch::Tensor x = stem_.forward(channels_last(images));
  if (stem_kind_ == ResNetPlan::Stem::strided) x = torch::max_pool2d(x, 3, /*stride=*/2, /*padding=*/1);
  for (const auto& block : blocks_) x = block->forward(x);
  return fc_->forward(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
}

}  // namespace paceline
