#include "paceline/train/passes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace paceline {
namespace {

// Nothing but a normalisation: its statistics are those of the images.
class Normalisation : public Model {
 public:
  Normalisation() { layer_ = register_module("layer", std::make_shared<BatchNorm2d>(2)); }
  torch::Tensor forward(torch::Tensor images) override { return layer_->forward(images); }
  const BatchNorm2d& layer() const { return *layer_; }

 private:
  std::shared_ptr<BatchNorm2d> layer_;
};

Recipe recipe(int micro) {
  return parse_recipe(fmt::format("[batch]\nmicro = {}\n[batch_norm]\nstatistics = \"last_iteration\"\n", micro),
                      "r.toml");
}

// Seven images in passes of 3 + 3 + 1, each pass around another mean.
TEST(Passes, LeaveTheStatisticsOfAllSamplesOfTheStep) {
  torch::manual_seed(3);
  torch::Tensor images = torch::randn({7, 2, 16, 16});
  images.narrow(0, 3, 3).add_(2);
  images.narrow(0, 6, 1).mul_(3).sub_(1);
  const auto own = std::make_shared<Normalisation>();
  Normalisation& model = *own;
  model.train();
  const Passes passes(model, recipe(3));
  std::vector<int64_t> counts;
  for (int step = 0; step < 2; ++step) {  // the first leaves nothing to the second
    counts.clear();
    passes.each({images + (step == 0 ? 50 : 0), torch::zeros({7}, torch::kInt64), 7, 7},
                [&](const torch::Tensor& part, const torch::Tensor&, bool last) {
                  counts.push_back(part.size(0));
                  EXPECT_EQ(last, counts.size() == 3);
                  model.forward(part);
                });
  }
  EXPECT_THAT(counts, testing::ElementsAre(3, 3, 1));
  const torch::Tensor mean = images.mean({0, 2, 3});
  const torch::Tensor variance = (images - mean.view({1, 2, 1, 1})).square().mean({0, 2, 3});
  EXPECT_LT((model.layer().running_mean() - mean).abs().max().item<double>(), 1e-5);
  // Each pass has n/(n-1) of its own variance, n being 256 or 768.
  EXPECT_LT((model.layer().running_variance() / variance - 1).abs().max().item<double>(), 0.004);
}

TEST(Passes, AreOneWhereNothingElseIsSaid) {
  const auto own = std::make_shared<Normalisation>();
  Normalisation& model = *own;
  int passes = 0;
  Passes(model, recipe(0))
      .each({torch::zeros({5, 2, 4, 4}), torch::zeros({5}, torch::kInt64), 5, 5},
            [&](const torch::Tensor& images, const torch::Tensor&, bool last) {
              ++passes;
              EXPECT_EQ(images.size(0), 5);
              EXPECT_TRUE(last);
            });
  EXPECT_EQ(passes, 1);
}

}  // namespace
}  // namespace paceline
