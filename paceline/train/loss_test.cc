#include "paceline/train/loss.h"

#include <gmock/gmock.h>

#include <cmath>

namespace paceline {
namespace {

const torch::Tensor kLogits = torch::tensor({{2.0f, 0.0f, -1.0f}, {0.5f, 0.25f, 3.0f}});
const torch::Tensor kLabels = torch::tensor({0, 1}, torch::kInt64);

double log_softmax(int64_t row, int64_t column) {
  double sum = 0;
  for (int64_t k = 0; k < 3; ++k) sum += std::exp(kLogits[row][k].item<double>());
  return kLogits[row][column].item<double>() - std::log(sum);
}

TEST(CrossEntropy, SumsOverTheSamples) {
  const double expected = -log_softmax(0, 0) - log_softmax(1, 1);
  EXPECT_NEAR(loss_sum({.name = "cross_entropy"}, kLogits, kLabels).item<double>(), expected, 1e-5);
}

TEST(CrossEntropy, SmoothsTheLabelsOverAllClasses) {
  double expected = 0;  // (1-ε)·onehot + ε/K
  for (int64_t row = 0; row < 2; ++row) {
    for (int64_t k = 0; k < 3; ++k) expected -= (k == row ? 0.9 + 0.1 / 3 : 0.1 / 3) * log_softmax(row, k);
  }
  EXPECT_NEAR(loss_sum({.name = "cross_entropy", .label_smoothing = 0.1}, kLogits, kLabels).item<double>(), expected,
              1e-5);
}

TEST(Mse, IsTheMeanOverClassesSummedOverSamples) {
  const double expected = (1.0 * 1 + 0 + 1) / 3 + (0.25 + 0.75 * 0.75 + 9) / 3;
  EXPECT_NEAR(loss_sum({.name = "mse"}, kLogits, kLabels).item<double>(), expected, 1e-6);
}

TEST(Top1, CountsTheLargestLogit) { EXPECT_EQ(correct_top1(kLogits, kLabels).item<int64_t>(), 1); }

TEST(Top5, CountsTheFiveLargest) {
  const torch::Tensor logits = torch::arange(10, torch::kFloat32).unsqueeze(0).repeat({2, 1});  // 5..9 are the largest
  EXPECT_EQ(correct_top5(logits, torch::tensor({5, 4}, torch::kInt64)).item<int64_t>(), 1);
}

TEST(Top5, CountsEverythingWhenThereAreFewerClasses) { EXPECT_EQ(correct_top5(kLogits, kLabels).item<int64_t>(), 2); }

}  // namespace
}  // namespace paceline
