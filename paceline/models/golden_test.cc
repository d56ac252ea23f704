// Against torchvision: tests/golden holds what its models answer for weights, images and labels that come from
// formulas.
//
// Criterion, with tolerance t, for every number x that is compared with torchvision's y: |x - y| <= t · max(1, |y|) for
// logits, loss and statistics; for a gradient tensor |x - y| <= t · y for its 2-norm, and for its elements
// |x - y| <= t · max(|y|, Y), where Y is torchvision's norm of the whole tensor.
//
// t = 1e-4 in float32 and 1e-6 in float64. ResNet-50's gradients are compared in float64 only: rounding moves some of
// its activations across the corner of a ReLU, where a gradient jumps (by 1e-3 here, another amount on another
// processor). In float64 that does not happen, and a wrong stride, name or normalisation cannot hide.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "paceline/models/model.h"
#include "paceline/models/safetensors.h"
#include "paceline/models/state.h"

namespace paceline {
namespace {

constexpr double kFloat32Tolerance = 1e-4;
constexpr double kFloat64Tolerance = 1e-6;
constexpr int64_t kElements = 64;

// Numbers in [-1, 1), multiples of 2^-23, from a hash of name and index; formula() of make_golden.py.
class Formula {
 public:
  explicit Formula(const std::string& name) {
    for (const char c : name) seed_ = (seed_ ^ static_cast<unsigned char>(c)) * 16777619u;
  }
  float operator()(int64_t index) const {
    uint32_t x = static_cast<uint32_t>(index) * 2654435769u + seed_;
    x = (x ^ (x >> 16)) * 2246822507u;
    x = (x ^ (x >> 13)) * 3266489909u;
    x = x ^ (x >> 16);
    return (static_cast<float>(x >> 8) - 0x1p23f) * 0x1p-23f;
  }

 private:
  uint32_t seed_ = 2166136261u;
};

torch::Tensor from_formula(const std::string& name, at::IntArrayRef shape, float scale = 1, float shift = 0) {
  torch::Tensor tensor = torch::empty(shape);
  const Formula formula(name);
  float* elements = tensor.data_ptr<float>();
  for (int64_t i = 0; i < tensor.numel(); ++i) elements[i] = shift + formula(i) * scale;
  return tensor;
}

torch::Tensor weights(const std::string& name, const torch::Tensor& like) {
  if (name.ends_with("num_batches_tracked")) return torch::zeros_like(like);
  if (like.dim() >= 2) {
    const double fan_in = static_cast<double>(like.numel() / like.size(0));
    return from_formula(name, like.sizes(), static_cast<float>(std::sqrt((like.dim() == 4 ? 6 : 3) / fan_in)));
  }
  float centre = 0;
  if (name.ends_with("bn2.weight") ||
      name.ends_with("bn3.weight")) {  // ends a residual block, or stands just before its end
    centre = 0.25f;
  } else if (name.ends_with(".weight") || name.ends_with("running_var")) {
    centre = 1;
  }
  return from_formula(name, like.sizes(), 0.125f, centre);
}

torch::Tensor picked(const torch::Tensor& tensor) {
  const int64_t size = tensor.numel(), count = std::min(size, kElements);
  const torch::Tensor index = torch::arange(count).mul(size).floor_divide(count);
  return tensor.detach().reshape(-1).index_select(0, index).to(torch::kFloat64);
}

void expect_near(const torch::Tensor& found, const torch::Tensor& expected, double floor, double tolerance,
                 const std::string& what) {
  const torch::Tensor x = found.detach().reshape(-1).to(torch::kFloat64), y = expected.reshape(-1).to(torch::kFloat64);
  ASSERT_EQ(x.numel(), y.numel()) << what;
  const double worst = ((x - y).abs() / y.abs().clamp_min(floor)).max().item<double>();
  EXPECT_LE(worst, tolerance) << what;  // false for NaN, too
}

class GoldenTest : public testing::TestWithParam<const char*> {
 protected:
  GoldenTest()
      : golden_(read_safetensors(PACELINE_SOURCE_DIR "/tests/golden/" + std::string(GetParam()) + ".safetensors")) {
    const int64_t samples = std::stoll(golden_.metadata.at("samples")),
                  pixels = std::stoll(golden_.metadata.at("pixels"));
    images_ = from_formula("images", {samples, 3, pixels, pixels});
    labels_ = torch::arange(samples).mul(389).add(7).remainder(1000);
    model_ = make_model(builtin_models(), GetParam(), {.image_size = pixels, .dropout = 0});
    NamedTensors state;
    for (const auto& [name, tensor] : state_of(*model_)) state.emplace(name, weights(name, tensor));
    load_state(*model_, state, "the formula");
  }

  const torch::Tensor& golden(const std::string& name) const { return golden_.tensors.at(name); }

  // Evaluates, then trains one step; returns the loss.
  torch::Tensor expect_answers(double tolerance) {
    model_->eval();
    {
      torch::NoGradGuard no_grad;
      expect_near(model_->forward(images_), golden("eval_logits"), 1, tolerance, "eval_logits");
    }
    model_->train();
    const torch::Tensor logits = model_->forward(images_);
    const torch::Tensor loss = torch::cross_entropy_loss(logits, labels_);
    expect_near(logits, golden("logits"), 1, tolerance, "logits");
    expect_near(loss, golden("loss"), 1, tolerance, "loss");
    for (const auto& item : model_->named_buffers()) {
      expect_near(picked(item.value()), golden("buffer." + item.key()), 1, tolerance, "buffer." + item.key());
    }
    return loss;
  }

  void expect_gradients(double tolerance) {
    for (const auto& item : model_->named_parameters()) {
      const std::string& name = item.key();
      const torch::Tensor gradient = item.value().grad();
      ASSERT_TRUE(gradient.defined()) << name;
      const torch::Tensor& norm = golden("norm." + name);
      expect_near(gradient.norm(2, torch::kFloat64), norm, 0, tolerance, "norm." + name);
      expect_near(picked(gradient), golden("gradient." + name), norm.item<double>(), tolerance, "gradient." + name);
    }
  }

  SafetensorsFile golden_;
  std::shared_ptr<Model> model_;
  torch::Tensor images_, labels_;
};

TEST_P(GoldenTest, AnswersAsTorchvisionDoes) {
  const torch::Tensor loss = expect_answers(kFloat32Tolerance);
  if (GetParam() == std::string("resnet50")) return;
  loss.backward();
  expect_gradients(kFloat32Tolerance);
}

TEST_P(GoldenTest, AnswersAsTorchvisionDoesInFloat64) {
  model_->to(torch::kFloat64);
  images_ = images_.to(torch::kFloat64);
  expect_answers(kFloat64Tolerance).backward();
  expect_gradients(kFloat64Tolerance);
}

TEST_P(GoldenTest, HasTheTensorsOfTorchvisionAndNoOthers) {
  std::set<std::string> expected = {"eval_logits", "logits", "loss"};
  for (const auto& item : model_->named_parameters()) expected.insert({"gradient." + item.key(), "norm." + item.key()});
  for (const auto& item : model_->named_buffers()) expected.insert("buffer." + item.key());
  std::set<std::string> found;
  for (const auto& [name, tensor] : golden_.tensors) found.insert(name);
  EXPECT_EQ(found, expected);
}

INSTANTIATE_TEST_SUITE_P(Torchvision, GoldenTest, testing::Values("resnet18", "resnet50", "vgg16", "alexnet"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace paceline
