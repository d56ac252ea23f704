// Barzilai and Borwein's rate (Big Batch SGD, arXiv 1610.05792): the inverse of the curvature along the last move.
//
//   nu = <w - w', g - g'> / ‖w - w'‖²;   proposed = factor/nu · (1 - S²/(k·‖g‖²));   rate <- (1 - q)·rate + q·proposed
//
// Decisions only: everything here is told numbers. optim/worker_rate.h measures them.
#pragma once

#include <cstdint>
#include <functional>

namespace paceline {

// Where g' and w' come from.
enum class Secant {
  exact,  // the last step's weights, with this step's batch: one gradient more
  cheap,  // the last step, with its own batch: no gradient more, but the difference of two batches counts as curvature
  ahead,  // where this step leads, with its own batch: one gradient more
};

struct BarzilaiBorweinOptions {
  double start_rate = 0;
  double min_rate = 0;
  double max_rate = 0;  // must be given: without it the published form ran away
  Secant secant = Secant::exact;
  double factor = 1;           // of 1/nu
  bool less_for_noise = true;  // the factor 1 - S²/(k·‖g‖²)
  double smoothing = 0;        // q; 0: the batch's share of the data
  bool start_counts = true;    // otherwise the n-th measurement counts 1/n at least: the first replaces the start
  bool safeguard = true;       // Armijo's condition, by halving
  int64_t every_steps = 1;     // measured and guarded in each of the first steps, then in every one of so many
};

// As published; what a prototype with 32 workers found useful, which is to rescue a rate that was set too low: half of
// 1/nu, cheap, without safeguard, never below a fifth of the start; and what one worker needs whose rate may be wrong
// either way (docs/results/optimizers.md): 3/2 of 1/nu ahead, in every tenth step.
BarzilaiBorweinOptions published_barzilai_borwein(double start_rate, double max_rate);
BarzilaiBorweinOptions useful_barzilai_borwein(double start_rate, double max_rate);
BarzilaiBorweinOptions steady_barzilai_borwein(double start_rate, double max_rate);

// Whether to measure in a step, counted from 0.
bool measures_in(int64_t step, const BarzilaiBorweinOptions& options);

// What the previous gradient is multiplied by when it comes from another batch: √(its samples / this batch's).
double previous_gradient_scale(double previous_samples, double samples);

struct SecantMeasurement {
  double move_dot_change = 0;   // <w - w', g - g'>
  double move_squared = 0;      // ‖w - w'‖²
  double gradient_squared = 0;  // ‖g‖²
  double noise = 0;             // S², the variance of the gradients that g is the mean of
  double gradients = 1;         // k, how many these are
  double batch_share = 1;       // of the data; 1: there is no noise
  bool overflow = false;        // of the loss scale: the gradients mean nothing
};

class BarzilaiBorweinRate {
 public:
  explicit BarzilaiBorweinRate(const BarzilaiBorweinOptions& options);  // REQUIRES: 0 < max_rate >= min_rate

  // What became of a measurement. The rate stays where it is after an overflow, a move too small to tell anything, or a
  // curvature that is not positive.
  enum class Outcome { followed, overflow, tiny_move, no_curvature };
  Outcome update(const SecantMeasurement& measured);

  double rate() const { return rate_; }
  void set_rate(double rate) { rate_ = rate; }  // after the safeguard
  int64_t followed() const { return followed_; }
  void restore(double rate, int64_t followed) { rate_ = rate, followed_ = followed; }  // from a checkpoint

 private:
  BarzilaiBorweinOptions options_;
  double rate_;
  int64_t followed_ = 0;  // measurements
};

constexpr double kArmijo = 0.1;
constexpr int kMostHalvings = 10;

// Whether a step of `rate` against the gradient lowers the loss enough. No loss that is not finite does.
bool armijo_holds(double loss, double loss_after, double rate, double gradient_squared, double c = kArmijo);

// How often to halve `rate` until armijo_holds, at most kMostHalvings times. loss_after(rate) is asked for each rate.
int armijo_halvings(double rate, double loss, double gradient_squared,
                    const std::function<double(double rate)>& loss_after);

}  // namespace paceline
