#include "paceline/optim/worker_rate.h"

#include <gmock/gmock.h>

namespace paceline {
namespace {

// f(w) = Σ curvature·w²/2 with curvatures from 1 to 10; counts what is asked of it.
class Quadratic {
 public:
  static constexpr double kTunedRate = 2.0 / (1 + 10);  // the best constant one
  Quadratic() : weights_(torch::ones({50}).requires_grad_()), curvatures_(torch::linspace(1, 10, 50)) {}

  std::vector<Parameter> parameters() const { return {{"w", weights_, true}}; }
  double loss() const { return loss_at({weights_.detach()}); }
  double loss_at(const WorkerRate::Tensors& w) const { return (curvatures_ * w[0].square()).sum().item<double>() / 2; }
  WorkerRate::Tensors gradient_at(const WorkerRate::Tensors& w) {
    ++gradients_;
    return {curvatures_ * w[0]};
  }
  void make_gradient() { weights_.mutable_grad() = gradient_at({weights_.detach()})[0]; }
  void move(double rate) { weights_.detach().sub_(weights_.grad(), rate); }
  int gradients() const { return gradients_; }
  WorkerRate::Probes probes() {
    return {.gradient_at = [this](const auto& w) { return gradient_at(w); },
            .loss_at = [this](const auto& w) { return loss_at(w); }};
  }

 private:
  torch::Tensor weights_, curvatures_;
  int gradients_ = 0;
};

// Gradients until the loss is a millionth, those for the rate included; 1000: never.
int gradients_needed(const std::function<double(Quadratic&)>& rate) {
  Quadratic problem;
  const double target = 1e-6 * problem.loss();
  while (!(problem.loss() <= target) && problem.gradients() < 1000) {
    problem.make_gradient();
    problem.move(rate(problem));
  }
  return problem.gradients();
}

int with_worker_rate(const BarzilaiBorweinOptions& options) {
  std::unique_ptr<WorkerRate> rate;
  return gradients_needed([&](Quadratic& problem) {
    if (!rate) rate = std::make_unique<WorkerRate>(problem.parameters(), options);
    return rate->next({}, problem.probes());
  });
}

TEST(WorkerRate, FindsItsWayFromARateTenTimesOff) {
  const int tuned = gradients_needed([](Quadratic&) { return Quadratic::kTunedRate; });
  EXPECT_LT(tuned, 100);
  for (const double times : {0.1, 10.0}) {
    EXPECT_GT(gradients_needed([&](Quadratic&) { return times * Quadratic::kTunedRate; }), 2 * tuned) << times;
    for (const bool exact : {true, false}) {
      BarzilaiBorweinOptions options = published_barzilai_borwein(times * Quadratic::kTunedRate, 10);
      options.exact = exact;
      EXPECT_LE(with_worker_rate(options), 2 * tuned) << times << (exact ? " exact" : " cheap");
    }
  }
}

TEST(WorkerRate, TheUsefulSettingRescuesARateSetTooLow) {
  const double low = Quadratic::kTunedRate / 10;
  const int plain = gradients_needed([&](Quadratic&) { return low; });
  EXPECT_LT(2 * with_worker_rate(useful_barzilai_borwein(low, 1)), plain);
}

TEST(WorkerRate, MeasuresTheCurvatureInEitherPrecision) {
  for (const torch::Dtype dtype : {torch::kFloat32, torch::kFloat64}) {
    torch::Tensor weight = torch::ones({70'000}, dtype).requires_grad_();  // several chunks
    BarzilaiBorweinOptions options = published_barzilai_borwein(0.01, 10);
    options.exact = false, options.safeguard = false;
    WorkerRate rate({{"w", weight, true}}, options);
    for (int step = 0; step < 2; ++step) {
      weight.mutable_grad() = 4 * weight.detach();
      const double found = rate.next({}, {});
      EXPECT_NEAR(found, step == 0 ? 0.01 : 0.25, 1e-6);
      weight.detach().sub_(weight.grad(), found);
    }
  }
}

TEST(WorkerRate, ScalesTheGradientOfABatchOfAnotherSize) {
  torch::Tensor weight = torch::ones({4}).requires_grad_();
  BarzilaiBorweinOptions options = published_barzilai_borwein(0.5, 10);
  options.exact = false, options.safeguard = false;
  WorkerRate rate({{"w", weight, true}}, options);
  weight.mutable_grad() = torch::ones({4});
  rate.next({.samples = 64, .data_samples = 16}, {});
  weight.detach().fill_(3);
  weight.mutable_grad() = torch::full({4}, 6.0);
  EXPECT_NEAR(rate.next({.samples = 16, .data_samples = 16}, {}), 2.0 / (6 - 2 * 1), 1e-9);
}

TEST(WorkerRate, AnOverflowTeachesNothing) {
  torch::Tensor weight = torch::ones({4}).requires_grad_();
  BarzilaiBorweinOptions options = published_barzilai_borwein(0.5, 10);
  options.exact = false, options.safeguard = false;
  WorkerRate rate({{"w", weight, true}}, options);
  weight.mutable_grad() = torch::ones({4});
  rate.next({}, {});
  weight.detach().fill_(3);
  weight.mutable_grad() = torch::full({4}, std::numeric_limits<float>::infinity());
  EXPECT_EQ(rate.next({.overflow = true}, {}), 0.5);
  weight.mutable_grad() = torch::full({4}, 5.0);
  EXPECT_NEAR(rate.next({}, {}), 2.0 / (5 - 1), 1e-9);
}

TEST(WorkerRate, RestoredStateContinuesBitForBit) {
  for (const bool exact : {true, false}) {
    BarzilaiBorweinOptions options = published_barzilai_borwein(0.02, 10);
    options.exact = exact;
    Quadratic problem;
    WorkerRate whole(problem.parameters(), options);
    for (int step = 0; step < 4; ++step) {
      problem.make_gradient();
      problem.move(whole.next({}, problem.probes()));
    }
    WorkerRate resumed(problem.parameters(), options);
    resumed.load_state(whole.state(), "memory");
    problem.make_gradient();
    EXPECT_EQ(resumed.next({}, problem.probes()), whole.next({}, problem.probes()));
  }
}

}  // namespace
}  // namespace paceline
