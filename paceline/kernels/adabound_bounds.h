// Between which rates AdaBound keeps those of its elements. Both kinds close in on one rate, so that an adaptive method
// becomes SGD by and by.
#pragma once

#include <limits>

namespace paceline {

struct RateBounds {
  double lower, upper;
};

// Luo's, by step t >= 1: final·(1 - 1/(gamma·t + 1)) and final·(1 + 1/(gamma·t)).
constexpr RateBounds adabound_bounds(double final_rate, double gamma, double step) {
  return {.lower = final_rate * (1 - 1 / (gamma * step + 1)), .upper = final_rate * (1 + 1 / (gamma * step))};
}

// Lu's linear-scaling warm-up, by epoch in [0, warmup_epochs], to lr·N = final_rate:
//   lower = epoch/T · final;   upper = final + 1/((1 - beta2)·epoch) - 1/((1 - beta2)·T)
// At epoch 0 from 0 to infinity; from T on both are final. With beta2 = 0.999 the upper one hardly acts before the last
// epoch of the warm-up: as published.
constexpr RateBounds warmup_bounds(double final_rate, double beta2, double epoch, double warmup_epochs) {
  if (epoch >= warmup_epochs) return {.lower = final_rate, .upper = final_rate};
  if (epoch <= 0) return {.lower = 0, .upper = std::numeric_limits<double>::infinity()};
  const double memory = 1 / (1 - beta2);  // in steps, how long v remembers
  return {.lower = epoch / warmup_epochs * final_rate, .upper = final_rate + memory / epoch - memory / warmup_epochs};
}

}  // namespace paceline
