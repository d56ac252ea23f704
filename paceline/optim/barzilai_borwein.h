// Barzilai and Borwein's rate (Big Batch SGD, arXiv 1610.05792): the inverse of the curvature along the last move.
//
//   nu = <w - w', g - g'> / ‖w - w'‖²;   proposed = factor/nu · (1 - S²/(k·‖g‖²));   rate <- (1 - q)·rate + q·proposed
//
// How much of a gradient is noise can also be asked of another batch: of a step -rate·h that was made of the last
// batch, the share -rate·<w - w', g'> / ‖w - w'‖² goes downhill for this one (without noise: all of it), and
//
//   rate <- factor · mean(share) / mean(nu)
//
// makes the most progress with factor 1, none at all with 2 if all directions are curved alike, and finds its own way
// for every batch size (Noise::other_batch).
//
// Decisions only: everything here is told numbers. optim/curvature_rate.h measures them.
#pragma once

#include <cstdint>
#include <functional>

namespace paceline {

// Where g' and w' come from.
enum class Secant {
  exact,  // the last step's weights, with this step's batch: one gradient more
  cheap,  // the last step, with its own batch: no gradient more, but the difference of two batches counts as curvature
};

// What is known of the noise.
enum class Noise {
  ignored,
  variance,     // S², of the gradients that g is the mean of
  other_batch,  // the share of the last step that is downhill for this batch too. Needs Secant::exact
};

struct BarzilaiBorweinOptions {
  double start_rate = 0;
  double min_rate = 0;
  double max_rate = 0;  // must be given: without it the published form ran away
  Secant secant = Secant::exact;
  double factor = 1;  // of 1/nu
  Noise noise = Noise::variance;
  double smoothing = 0;      // q; 0: the batch's share of the data
  bool start_counts = true;  // otherwise the n-th measurement counts 1/n at least: the first replaces the start
  bool safeguard = true;     // Armijo's condition, by halving
  int64_t every_steps = 1;   // measured and guarded in each of the first steps, then in every one of so many
};

// As published; what a prototype with 32 workers found useful, which is to rescue a rate that was set too low: half of
// 1/nu, cheap, without safeguard, never below a fifth of the start; and what one worker needs whose rate may be wrong
// either way (docs/results/optimizers.md): noise by the other batch, in every tenth step.
BarzilaiBorweinOptions published_barzilai_borwein(double start_rate, double max_rate);
BarzilaiBorweinOptions useful_barzilai_borwein(double start_rate, double max_rate);
BarzilaiBorweinOptions steady_barzilai_borwein(double start_rate, double max_rate);

// Whether to measure in a step, counted from 0.
bool measures_in(int64_t step, const BarzilaiBorweinOptions& options);

// What the previous gradient is multiplied by when it comes from another batch: √(its samples / this batch's).
double previous_gradient_scale(double previous_samples, double samples);

struct SecantMeasurement {
  double move_dot_change = 0;    // <w - w', g - g'>
  double move_dot_previous = 0;  // <w - w', g'>
  double move_squared = 0;       // ‖w - w'‖²
  double gradient_squared = 0;   // ‖g‖²
  double move_rate = 0;          // of the step from w' to w
  double noise = 0;              // S², the variance of the gradients that g is the mean of
  double gradients = 1;          // k, how many these are
  double batch_share = 1;        // of the data; 1: there is no noise
  bool overflow = false;         // of the loss scale: the gradients mean nothing
};

class BarzilaiBorweinRate {
 public:
  explicit BarzilaiBorweinRate(const BarzilaiBorweinOptions& options);  // REQUIRES: 0 < max_rate >= min_rate

  // What became of a measurement. The rate stays where it is after an overflow, a move too small to tell anything, a
  // curvature that is not positive, or a last step that was not downhill (Noise::other_batch: in the mean).
  enum class Outcome { followed, overflow, tiny_move, no_curvature, not_downhill };
  Outcome update(const SecantMeasurement& measured);

  struct Learnt {
    double rate = 0;
    double followed = 0;                 // measurements
    double downhill = 0, curvature = 0;  // Noise::other_batch: their means
  };
  double rate() const { return learnt_.rate; }
  void set_rate(double rate) { learnt_.rate = rate; }  // after the safeguard
  const Learnt& learnt() const { return learnt_; }
  void restore(const Learnt& learnt) { learnt_ = learnt; }  // from a checkpoint

 private:
  double weight_of(const SecantMeasurement& measured);
  Outcome follow_other_batch(const SecantMeasurement& measured, double curvature);

  BarzilaiBorweinOptions options_;
  Learnt learnt_;
};

constexpr double kArmijo = 0.1;
constexpr int kMostHalvings = 10;

// Whether a step of `rate` against the gradient lowers the loss enough, as far as a loss of f32 numbers can tell: near
// its end a run has losses that are all rounding. No loss that is not finite does.
bool armijo_holds(double loss, double loss_after, double rate, double gradient_squared, double c = kArmijo);

// How often to halve `rate` until armijo_holds, at most kMostHalvings times. loss_after(rate) is asked for each rate.
int armijo_halvings(double rate, double loss, double gradient_squared,
                    const std::function<double(double rate)>& loss_after);

}  // namespace paceline
