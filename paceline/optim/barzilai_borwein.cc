#include "paceline/optim/barzilai_borwein.h"

#include <algorithm>
#include <cmath>

#include "paceline/core/check.h"

namespace paceline {
namespace {

// Squared: below this a move is rounding, and its curvature noise.
constexpr double kTinyMoveSquared = 1e-24;

constexpr double kLossRounding = 1e-6;  // some units in the last place of what softmax and mean are made of

constexpr int64_t kSettlingSteps = 6;  // the first one has no step before it

}  // namespace

BarzilaiBorweinOptions published_barzilai_borwein(double start_rate, double max_rate) {
  return {.start_rate = start_rate, .max_rate = max_rate};
}

BarzilaiBorweinOptions useful_barzilai_borwein(double start_rate, double max_rate) {
  return {.start_rate = start_rate,
          .min_rate = 0.2 * start_rate,
          .max_rate = max_rate,
          .secant = Secant::cheap,
          .factor = 0.5,
          .noise = Noise::ignored,
          .smoothing = 0.05,
          .safeguard = false};
}

BarzilaiBorweinOptions steady_barzilai_borwein(double start_rate, double max_rate) {
  return {.start_rate = start_rate,
          .max_rate = max_rate,
          .factor = 1.6,
          .noise = Noise::other_batch,
          .smoothing = 0.1,
          .start_counts = false,
          .every_steps = 10};
}

bool measures_in(int64_t step, const BarzilaiBorweinOptions& options) {
  return step < kSettlingSteps || step % options.every_steps == 0;
}

double previous_gradient_scale(double previous_samples, double samples) {
  return std::sqrt(previous_samples / samples);
}

BarzilaiBorweinRate::BarzilaiBorweinRate(const BarzilaiBorweinOptions& options)
    : options_(options), learnt_{.rate = options.start_rate} {
  CHECK_GT(options.max_rate, 0);
  CHECK_LE(options.min_rate, options.max_rate);
  CHECK_TRUE(options.noise != Noise::other_batch || options.secant == Secant::exact,
             "only the last step's weights with this step's batch tell what another batch makes of the step");
}

BarzilaiBorweinRate::Outcome BarzilaiBorweinRate::update(const SecantMeasurement& measured) {
  if (measured.overflow) return Outcome::overflow;
  if (!(measured.move_squared > kTinyMoveSquared)) return Outcome::tiny_move;
  const double curvature = measured.move_dot_change / measured.move_squared;
  if (!std::isfinite(curvature)) return Outcome::no_curvature;
  if (options_.noise == Noise::other_batch) return follow_other_batch(measured, curvature);
  if (!(curvature > 0)) return Outcome::no_curvature;

  double proposed = options_.factor / curvature;
  if (options_.noise == Noise::variance && measured.batch_share < 1) {
    const double noise_share = measured.noise / (measured.gradients * measured.gradient_squared);
    proposed *= std::isfinite(noise_share) ? std::max(0.0, 1 - noise_share) : 0;
  }
  const double q = weight_of(measured);
  learnt_.rate = std::clamp((1 - q) * learnt_.rate + q * proposed, options_.min_rate, options_.max_rate);
  return Outcome::followed;
}

// Means of both, not of their quotient: single ones are mostly noise, and may be negative.
BarzilaiBorweinRate::Outcome BarzilaiBorweinRate::follow_other_batch(const SecantMeasurement& measured,
                                                                     double curvature) {
  const double downhill = -measured.move_rate * measured.move_dot_previous / measured.move_squared;
  if (!std::isfinite(downhill)) return Outcome::not_downhill;
  const double q = weight_of(measured);
  learnt_.downhill += q * (downhill - learnt_.downhill);
  learnt_.curvature += q * (curvature - learnt_.curvature);
  if (!(learnt_.curvature > 0)) return Outcome::no_curvature;
  if (!(learnt_.downhill > 0)) return Outcome::not_downhill;
  learnt_.rate =
      std::clamp(options_.factor * learnt_.downhill / learnt_.curvature, options_.min_rate, options_.max_rate);
  return Outcome::followed;
}

// q of the measurement, which is counted.
double BarzilaiBorweinRate::weight_of(const SecantMeasurement& measured) {
  const double q = options_.smoothing > 0 ? options_.smoothing : std::min(1.0, measured.batch_share);
  learnt_.followed += 1;
  return options_.start_counts ? q : std::max(q, 1 / learnt_.followed);
}

bool armijo_holds(double loss, double loss_after, double rate, double gradient_squared, double c) {
  const double rounding = kLossRounding * (1 + std::abs(loss));
  return std::isfinite(loss_after) && loss_after <= loss - c * rate * gradient_squared + rounding;
}

int armijo_halvings(double rate, double loss, double gradient_squared,
                    const std::function<double(double rate)>& loss_after) {
  int halvings = 0;
  while (halvings < kMostHalvings && !armijo_holds(loss, loss_after(rate), rate, gradient_squared)) {
    rate /= 2;
    ++halvings;
  }
  return halvings;
}

}  // namespace paceline
