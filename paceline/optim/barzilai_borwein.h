// Barzilai and Borwein's rate (Big Batch SGD, arXiv 1610.05792): the inverse of the curvature along the last move.
//
//   nu = <w - w', g - g'> / ‖w - w'‖²;   proposed = factor/nu · (1 - S²/(k·‖g‖²));   rate <- (1 - q)·rate + q·proposed
//
// Decisions only: everything here is told numbers. optim/worker_rate.h measures them.
#pragma once

#include <functional>

namespace paceline {

struct BarzilaiBorweinOptions {
  double start_rate = 0;
  double min_rate = 0;
  double max_rate = 0;         // must be given: without it the published form ran away
  bool exact = true;           // both gradients on this step's batch; otherwise g' is the last step's, of its own batch
  double factor = 1;           // of 1/nu
  bool less_for_noise = true;  // the factor 1 - S²/(k·‖g‖²)
  double smoothing = 0;        // q; 0: the batch's share of the data
  bool safeguard = true;       // Armijo's condition, by halving
};

// As published; and what a prototype with 32 workers found useful, which is to rescue a rate that was set too low:
// half of 1/nu, cheap, without safeguard, never below a fifth of the start.
BarzilaiBorweinOptions published_barzilai_borwein(double start_rate, double max_rate);
BarzilaiBorweinOptions useful_barzilai_borwein(double start_rate, double max_rate);

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
  void set_rate(double rate) { rate_ = rate; }  // after the safeguard, or from a checkpoint

 private:
  BarzilaiBorweinOptions options_;
  double rate_;
};

constexpr double kArmijo = 0.1;
constexpr int kMostHalvings = 10;

// Whether a step of `rate` against the gradient lowers the loss enough. No loss that is not finite does.
bool armijo_holds(double loss, double loss_after, double rate, double gradient_squared, double c = kArmijo);

// How often to halve `rate` until armijo_holds, at most kMostHalvings times. loss_after(rate) is asked for each rate.
int armijo_halvings(double rate, double loss, double gradient_squared,
                    const std::function<double(double rate)>& loss_after);

}  // namespace paceline
