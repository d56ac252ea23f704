#include "paceline/serving/gradient_stream.h"

#include <gmock/gmock.h>

#include "paceline/models/initialise.h"

namespace paceline {
namespace {

std::shared_ptr<Model> small_model() {
  auto model = make_model(builtin_models(), "small_cnn", {.classes = 10, .channels = 1, .image_size = 28});
  initialise(*model, "kaiming", 1);
  return model;
}

class GradientStreamTest : public ::testing::Test {
 protected:
  torch::Tensor loss() { return flat_.model().forward(images_).square().sum(); }
  void forget_gradients() {
    for (const Parameter& parameter : flat_.parameters()) parameter.tensor.mutable_grad().reset();
  }

  FlatModel flat_{small_model()};
  torch::Tensor images_ = torch::linspace(-1, 1, 2 * 28 * 28).reshape({2, 1, 28, 28});
};

TEST_F(GradientStreamTest, HandsOutTheEndFirstAndNothingTwice) {
  std::vector<float> gradient(flat_.count(), -1), whole(flat_.count());
  uint64_t from = flat_.count();
  int calls = 0;
  GradientStream stream(flat_, gradient, 1000, [&](uint64_t begin, uint64_t count) {
    EXPECT_GE(count, 1000u);
    EXPECT_EQ(begin + count, from);
    from = begin;
    ++calls;
  });
  stream.expect_last_pass();
  loss().backward();
  stream.finish();
  EXPECT_GT(calls, 1);
  EXPECT_LT(from, 1000u);
  flat_.gather_gradient(whole);
  EXPECT_EQ(gradient, whole);
}

TEST_F(GradientStreamTest, PassesBeforeTheLastOnlyAddUp) {
  std::vector<float> gradient(flat_.count()), whole(flat_.count());
  int calls = 0;
  GradientStream stream(flat_, gradient, 1, [&](uint64_t, uint64_t) { ++calls; });
  loss().backward();
  EXPECT_EQ(calls, 0);
  stream.expect_last_pass();
  loss().backward();
  stream.finish();
  EXPECT_GT(calls, 0);
  flat_.gather_gradient(whole);
  EXPECT_EQ(gradient, whole);
}

TEST_F(GradientStreamTest, ParametersThatTookNoPartHaveZeros) {
  std::vector<float> gradient(flat_.count(), -1);
  uint64_t handed = 0;
  GradientStream stream(flat_, gradient, 1, [&](uint64_t, uint64_t count) { handed += count; });
  stream.expect_last_pass();
  flat_.parameters()[0].tensor.sum().backward();
  stream.finish();
  EXPECT_EQ(handed, 0u);  // what comes after it is not there
  const auto first = static_cast<long>(flat_.parameters()[0].tensor.numel());
  EXPECT_EQ(std::count(gradient.begin(), gradient.begin() + first, 1.0f), first);
  EXPECT_EQ(std::count(gradient.begin() + first, gradient.end(), 0.0f), static_cast<long>(flat_.count()) - first);
}

TEST_F(GradientStreamTest, GradientsOfAParameterThatTheLastPassDoesNotUseAreKept) {
  std::vector<float> gradient(flat_.count(), -1), whole(flat_.count());
  GradientStream stream(flat_, gradient, 1, [](uint64_t, uint64_t) {});
  loss().backward();
  stream.expect_last_pass();
  flat_.parameters()[0].tensor.sum().backward();
  stream.finish();
  flat_.gather_gradient(whole);
  EXPECT_EQ(gradient, whole);
}

TEST_F(GradientStreamTest, LeavesTheModelAsItWas) {
  std::vector<float> gradient(flat_.count());
  int calls = 0;
  {
    GradientStream stream(flat_, gradient, 1, [&](uint64_t, uint64_t) { ++calls; });
    stream.expect_last_pass();
  }
  loss().backward();
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace paceline
