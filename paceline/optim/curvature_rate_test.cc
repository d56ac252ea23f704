#include "paceline/optim/curvature_rate.h"

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
  double loss_at(const CurvatureRate::Tensors& w) const {
    return (curvatures_ * w[0].square()).sum().item<double>() / 2;
  }
  CurvatureRate::Tensors gradient_at(const CurvatureRate::Tensors& w) {
    ++gradients_;
    return {curvatures_ * w[0]};
  }
  void make_gradient() { weights_.mutable_grad() = gradient_at({weights_.detach()})[0]; }
  void move(double rate) { weights_.detach().sub_(weights_.grad(), rate); }
  int gradients() const { return gradients_; }
  CurvatureRate::Probes probes() {
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

int with_curvature_rate(const BarzilaiBorweinOptions& options) {
  std::unique_ptr<CurvatureRate> rate;
  return gradients_needed([&](Quadratic& problem) {
    if (!rate) rate = std::make_unique<CurvatureRate>(problem.parameters(), options);
    return rate->next({}, problem.probes());
  });
}

TEST(CurvatureRate, FindsItsWayFromARateTenTimesOff) {
  const int tuned = gradients_needed([](Quadratic&) { return Quadratic::kTunedRate; });
  EXPECT_LT(tuned, 100);
  for (const double times : {0.1, 10.0}) {
    EXPECT_GT(gradients_needed([&](Quadratic&) { return times * Quadratic::kTunedRate; }), 2 * tuned) << times;
    const double start = times * Quadratic::kTunedRate;
    for (const Secant secant : {Secant::exact, Secant::cheap}) {
      BarzilaiBorweinOptions options = published_barzilai_borwein(start, 10);
      options.secant = secant;
      EXPECT_LE(with_curvature_rate(options), 2 * tuned) << times << ", secant " << static_cast<int>(secant);
    }
    EXPECT_LE(with_curvature_rate(steady_barzilai_borwein(start, 10)), 2 * tuned) << times;
  }
}

TEST(CurvatureRate, TheUsefulSettingRescuesARateSetTooLow) {
  const double low = Quadratic::kTunedRate / 10;
  const int plain = gradients_needed([&](Quadratic&) { return low; });
  EXPECT_LT(2 * with_curvature_rate(useful_barzilai_borwein(low, 1)), plain);
}

TEST(CurvatureRate, MeasuresInTheFirstStepsThenNowAndThen) {
  Quadratic problem;
  CurvatureRate rate(problem.parameters(), steady_barzilai_borwein(0.01, 10));
  std::vector<int> measured;
  for (int step = 0; step < 31; ++step) {
    problem.make_gradient();
    const int before = problem.gradients();
    CurvatureRate::Probes probes = problem.probes();
    probes.loss = [&] { return problem.loss(); };
    problem.move(rate.next({}, probes));
    if (problem.gradients() > before) measured.push_back(step);
  }
  EXPECT_THAT(measured, ::testing::ElementsAre(1, 2, 3, 4, 5, 10, 20, 30));
}

// Whatever the start was.
TEST(CurvatureRate, TheFirstMeasurementReplacesAStartThatDoesNotCount) {
  for (const double start : {1e-4, 0.03}) {
    torch::Tensor weight = torch::ones({4}).requires_grad_();
    BarzilaiBorweinOptions options = steady_barzilai_borwein(start, 10);
    options.safeguard = false;
    CurvatureRate rate({{"w", weight, true}}, options);
    const auto gradient_at = [](const CurvatureRate::Tensors& weights) {
      return CurvatureRate::Tensors{5 * weights[0]};
    };
    const auto next = [&] {
      weight.mutable_grad() = gradient_at({weight.detach()})[0];
      return rate.next({}, {.gradient_at = gradient_at});
    };
    const double first = next();
    weight.detach().sub_(weight.grad(), first);
    EXPECT_NEAR(next(), 1.6 / 5, 1e-2);
  }
}

// A slope with hardly any curvature and a wall behind it: what the curvature proposes leads into the wall.
TEST(CurvatureRate, TheSafeguardLooksAtTheRateThatIsTaken) {
  torch::Tensor weight = torch::ones({1}).requires_grad_();
  const auto loss_at = [](const CurvatureRate::Tensors& w) {
    return (w[0] + 0.005 * w[0].square() + 50 * w[0].clamp_max(0).square()).sum().item<double>();
  };
  const auto gradient_at = [](const CurvatureRate::Tensors& w) {
    return CurvatureRate::Tensors{1 + 0.01 * w[0] + 100 * w[0].clamp_max(0)};
  };
  CurvatureRate rate({{"w", weight, true}}, steady_barzilai_borwein(0.01, 1000));
  const auto next = [&] {
    weight.mutable_grad() = gradient_at({weight.detach()})[0];
    return rate.next({}, {.gradient_at = gradient_at, .loss_at = loss_at});
  };
  const double first = next();
  EXPECT_EQ(first, 0.01);
  weight.detach().sub_(weight.grad(), first);
  const double taken = next();
  EXPECT_GT(taken, 0.1);
  EXPECT_LT(loss_at({weight.detach() - taken * weight.grad()}), loss_at({weight.detach()}));
}

TEST(CurvatureRate, MeasuresTheCurvatureInEitherPrecision) {
  for (const torch::Dtype dtype : {torch::kFloat32, torch::kFloat64}) {
    torch::Tensor weight = torch::ones({70'000}, dtype).requires_grad_();  // several chunks
    BarzilaiBorweinOptions options = published_barzilai_borwein(0.01, 10);
    options.secant = Secant::cheap, options.safeguard = false;
    CurvatureRate rate({{"w", weight, true}}, options);
    for (int step = 0; step < 2; ++step) {
      weight.mutable_grad() = 4 * weight.detach();
      const double found = rate.next({}, {});
      EXPECT_NEAR(found, step == 0 ? 0.01 : 0.25, 1e-6);
      weight.detach().sub_(weight.grad(), found);
    }
  }
}

TEST(CurvatureRate, ScalesTheGradientOfABatchOfAnotherSize) {
  torch::Tensor weight = torch::ones({4}).requires_grad_();
  BarzilaiBorweinOptions options = published_barzilai_borwein(0.5, 10);
  options.secant = Secant::cheap, options.safeguard = false;
  CurvatureRate rate({{"w", weight, true}}, options);
  weight.mutable_grad() = torch::ones({4});
  rate.next({.samples = 64, .data_samples = 16}, {});
  weight.detach().fill_(3);
  weight.mutable_grad() = torch::full({4}, 6.0);
  EXPECT_NEAR(rate.next({.samples = 16, .data_samples = 16}, {}), 2.0 / (6 - 2 * 1), 1e-9);
}

TEST(CurvatureRate, AnOverflowTeachesNothing) {
  torch::Tensor weight = torch::ones({4}).requires_grad_();
  BarzilaiBorweinOptions options = published_barzilai_borwein(0.5, 10);
  options.secant = Secant::cheap, options.safeguard = false;
  CurvatureRate rate({{"w", weight, true}}, options);
  weight.mutable_grad() = torch::ones({4});
  rate.next({}, {});
  weight.detach().fill_(3);
  weight.mutable_grad() = torch::full({4}, std::numeric_limits<float>::infinity());
  EXPECT_EQ(rate.next({.overflow = true}, {}), 0.5);
  weight.mutable_grad() = torch::full({4}, 5.0);
  EXPECT_NEAR(rate.next({}, {}), 2.0 / (5 - 1), 1e-9);
}

TEST(CurvatureRate, RestoredStateContinuesBitForBit) {
  for (BarzilaiBorweinOptions options :
       {published_barzilai_borwein(0.02, 10), useful_barzilai_borwein(0.02, 10), steady_barzilai_borwein(0.02, 10)}) {
    Quadratic problem;
    CurvatureRate whole(problem.parameters(), options);
    for (int step = 0; step < 4; ++step) {
      problem.make_gradient();
      problem.move(whole.next({}, problem.probes()));
    }
    CurvatureRate resumed(problem.parameters(), options);
    Optimizer::State saved, live;
    whole.add_to(saved);
    resumed.add_to(live);
    copy_state(saved, live, "memory");
    problem.make_gradient();
    EXPECT_EQ(resumed.next({}, problem.probes()), whole.next({}, problem.probes()));
  }
}

}  // namespace
}  // namespace paceline
