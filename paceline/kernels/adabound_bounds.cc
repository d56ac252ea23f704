#include "paceline/kernels/adabound_bounds.h"

#include <limits>

namespace paceline {

RateBounds adabound_bounds(double final_rate, double gamma, double step) {
  return {.lower = final_rate * (1 - 1 / (gamma * step + 1)), .upper = final_rate * (1 + 1 / (gamma * step))};
}

RateBounds warmup_bounds(double final_rate, double beta2, double epoch, double warmup_epochs) {
  if (epoch >= warmup_epochs) return {.lower = final_rate, .upper = final_rate};
  if (epoch <= 0) return {.lower = 0, .upper = std::numeric_limits<double>::infinity()};
  const double memory = 1 / (1 - beta2);  // in steps, how long v remembers
  return {.lower = epoch / warmup_epochs * final_rate, .upper = final_rate + memory / epoch - memory / warmup_epochs};
}

}  // namespace paceline
