#include "paceline/gradients/batch_statistics.h"

#include <gmock/gmock.h>

#include "paceline/comm/engine_local.h"
#include "paceline/gradients/statistics_share.h"
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
    const torch::Tensor& mine = shares.images[static_cast<size_t>(group.rank())];
    layer.forward(mine);
    average_batch_statistics(layer, group, static_cast<double>(mine.size(0)));
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
    average_batch_statistics(layer, group, 1);
    EXPECT_LT(largest(layer.running_mean() - mean_of(shares.all())), 1e-6);
  });
}

// What one process that has all samples of each step would keep.
struct Reference {
  explicit Reference(double momentum) : momentum(momentum) {}
  void step(const torch::Tensor& images) {
    mean += momentum * (mean_of(images) - mean);
    variance += momentum * (variance_of(images) - variance);
  }
  double momentum;
  torch::Tensor mean = torch::full({2}, 3, torch::kFloat64), variance = torch::ones({2}, torch::kFloat64);
};

// Samples of each rank, and for how many steps. Ranks rest for a while, come back, come for the first time, and share
// short batches.
struct Phase {
  std::vector<int64_t> samples;
  int steps;
};
const std::vector<Phase> kPhases = {{{4, 4, 0}, 8}, {{2, 1, 0}, 1}, {{6, 0, 0}, 30},
                                    {{1, 0, 0}, 1}, {{4, 4, 4}, 3}, {{1, 1, 0}, 1}};

struct Errors {  // relative, the largest of a channel, after each phase
  std::vector<double> mean, variance;
};

// Images whose mean, or whose deviation, grows from step to step: what a rank has seen long ago is far off.
Errors errors_by_phase(double momentum, bool exactly, bool mean_grows) {
  Errors errors;
  run_ranks(3, [&](Group& group) {
    const auto own = std::make_shared<BatchNorm2d>(2);
    BatchNorm2d& layer = *own;
    layer.reset();
    batch_statistics(layer).at("running_mean").fill_(3);
    layer.train();
    layer.set_momentum(momentum);
    StatisticsShare share(momentum);
    Reference reference(momentum);
    int step = 0;
    for (const Phase& phase : kPhases) {
      for (int i = 0; i < phase.steps; ++i, ++step) {
        std::vector<torch::Tensor> images;
        int64_t all = 0;
        for (size_t rank = 0; rank < 3; ++rank) {
          auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(3 * step) + rank);
          const double deviation = mean_grows ? 1 : 1 + 0.1 * step, mean = mean_grows ? 3 + 0.3 * step : 3;
          images.push_back(torch::randn({phase.samples[rank], 2, 8, 8}, generator) * deviation + mean);
          all += phase.samples[rank];
        }
        const torch::Tensor& mine = images[static_cast<size_t>(group.rank())];
        share.begin_step(static_cast<double>(mine.size(0)), static_cast<double>(all));
        if (exactly) layer.set_momentum(share.momentum());
        if (mine.size(0) > 0) layer.forward(mine);
        reference.step(torch::cat(images));
      }
      const AveragedStatistics averaged(layer, group, share.weight());
      if (group.rank() != 0) continue;
      errors.mean.push_back(largest(layer.running_mean() / reference.mean - 1));
      errors.variance.push_back(largest(layer.running_variance() / reference.variance - 1));
    }
  });
  return errors;
}

using testing::Each;
using testing::Lt;

// Variances differ by n/(n-1), at most 64/63, and by what lies between the ranks' means of one step.
constexpr double kVarianceTolerance = 0.05;

TEST(BatchStatistics, OfRanksThatRestAndComeBackAreThoseOfOneProcess) {
  EXPECT_THAT(errors_by_phase(0.1, /*exactly=*/true, /*mean_grows=*/true).mean, Each(Lt(1e-5)));
  EXPECT_THAT(errors_by_phase(0.1, /*exactly=*/true, /*mean_grows=*/false).variance, Each(Lt(kVarianceTolerance)));
}

TEST(BatchStatistics, OfTheLastStepAreThoseOfTheRanksThatTookPart) {
  EXPECT_THAT(errors_by_phase(1, /*exactly=*/false, /*mean_grows=*/true).mean, Each(Lt(1e-5)));
  EXPECT_THAT(errors_by_phase(1, /*exactly=*/false, /*mean_grows=*/false).variance, Each(Lt(kVarianceTolerance)));
}

// Layers that keep their momentum: what a resting rank has seen fades, and a short batch hardly counts.
TEST(BatchStatistics, OfARestingRankFade) {
  const Errors means = errors_by_phase(0.1, /*exactly=*/false, /*mean_grows=*/true);
  const Errors variances = errors_by_phase(0.1, /*exactly=*/false, /*mean_grows=*/false);
  EXPECT_THAT(std::vector(means.mean.begin(), means.mean.begin() + 4), Each(Lt(0.02)));
  EXPECT_THAT(std::vector(variances.variance.begin(), variances.variance.begin() + 4), Each(Lt(kVarianceTolerance)));
}

TEST(BatchStatistics, AVarianceIsOfTheBatchesThatItHasSeen) {
  const auto own = std::make_shared<BatchNorm2d>(2);
  own->reset();
  own->train();
  EXPECT_EQ(own->correction(), 0);
  own->forward(torch::randn({4, 2, 2, 2}));
  EXPECT_DOUBLE_EQ(own->correction(), 16.0 / 15);
  own->forward(torch::randn({1, 2, 2, 1}));
  EXPECT_DOUBLE_EQ(own->correction(), 0.9 * 16 / 15 + 0.1 * 2);
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
      const AveragedStatistics averaged(layer, group, 1);
      EXPECT_FALSE(torch::equal(layer.running_mean(), mean));
    }
    EXPECT_TRUE(torch::equal(layer.running_mean(), mean));
    EXPECT_TRUE(torch::equal(layer.running_variance(), variance));
  });
}

}  // namespace
}  // namespace paceline
