// A run whose numbers are no longer finite.
#pragma once

#include "paceline/core/error.h"

namespace paceline {

// Every rank throws it, in or after the same step.
class DivergenceError : public TrainingError {
 public:
  using TrainingError::TrainingError;
};

constexpr const char* kAgainstDivergence =
    "try a lower optimizer.rate, a longer schedule.warmup_epochs or optimizer.clip_norm";

}  // namespace paceline
