#include "paceline/gradients/batch_statistics.h"

#include <gmock/gmock.h>

#include "paceline/comm/engine_local.h"
#include "paceline/models/layers.h"

namespace paceline {
namespace {

// Images of all ranks; each rank has some of them, around another mean.
struct Shares {
  explicit Shares(const std::vector<int64_t>& sizes) {
    torch::manual_seed(5);
    for (size_t rank = 0; rank < sizes.size(); ++rank)
      images.push_back(torch::randn({sizes[rank], 2, 8, 8}) * (1 + 0.5 * static_cast<double>(rank)) +
                       3 * static_cast<double>(rank));
  }
  torch::Tensor all() const { return torch::cat(images); }
  std::vector<torch::Tensor> images;
};

torch::Tensor mean_of(const torch::Tensor& images) { return images.mean({0, 2, 3}, false, torch::kFloat64); }
torch::Tensor variance_of(const torch::Tensor& images) {  // of all values, not of a sample
  return (images - mean_of(images).view({1, 2, 1, 1})).square().mean({0, 2, 3});
}

double largest(const torch::Tensor& differences) { return differences.abs().max().item<double>(); }

// What each rank has seen in its last step becomes what one rank would have seen that had all of it.
TEST(BatchStatistics, AreThoseOfAllSamplesTogether) {
  const Shares shares({3, 5, 1});
  run_ranks(3, [&](Group& group) {
    const auto own = std::make_shared<BatchNorm2d>(2);
    BatchNorm2d& layer = *own;
    layer.reset();
    layer.train();
    layer.set_momentum(1);
    layer.forward(shares.images[static_cast<size_t>(group.rank())]);
    average_batch_statistics(layer, group);
    const torch::Tensor all = shares.all();
    EXPECT_LT(largest(layer.running_mean() - mean_of(all)), 1e-6);
    // n/(n-1) of the ranks, 192, 320 and 64 values a channel, weighted by them.
    const double correction = (192.0 * 192 / 191 + 320.0 * 320 / 319 + 64.0 * 64 / 63) / (192 + 320 + 64);
    EXPECT_LT(largest(layer.running_variance() / (correction * variance_of(all)) - 1), 1e-6);
  });
}

TEST(BatchStatistics, OfARankWithoutSamplesDoNotCount) {
  const Shares shares({4, 4});
  run_ranks(3, [&](Group& group) {
    const auto own = std::make_shared<BatchNorm2d>(2);
    BatchNorm2d& layer = *own;
    layer.reset();
    layer.train();
    layer.set_momentum(1);
    if (group.rank() < 2) layer.forward(shares.images[static_cast<size_t>(group.rank())]);
    average_batch_statistics(layer, group);
    EXPECT_LT(largest(layer.running_mean() - mean_of(shares.all())), 1e-6);
  });
}

TEST(BatchStatistics, AreEachRanksOwnAgainAfterwards) {
  const Shares shares({4, 2});
  run_ranks(2, [&](Group& group) {
    const auto own = std::make_shared<BatchNorm2d>(2);
    BatchNorm2d& layer = *own;
    layer.reset();
    layer.train();
    layer.forward(shares.images[static_cast<size_t>(group.rank())]);
    const torch::Tensor mean = layer.running_mean().clone(), variance = layer.running_variance().clone();
    {
      const AveragedStatistics averaged(layer, group);
      EXPECT_FALSE(torch::equal(layer.running_mean(), mean));
    }
    EXPECT_TRUE(torch::equal(layer.running_mean(), mean));
    EXPECT_TRUE(torch::equal(layer.running_variance(), variance));
  });
}

}  // namespace
}  // namespace paceline
