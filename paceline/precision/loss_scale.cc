#include "paceline/precision/loss_scale.h"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/check.h"
#include "paceline/core/error.h"

namespace paceline {

LossScaleOptions loss_scale_options(const Recipe::Precision& precision) {
  CHECK_NE(precision.loss_scaling, "none");
  return {.dynamic = precision.loss_scaling == "dynamic",
          .first = precision.loss_scale,
          .growth_steps = precision.growth_steps,
          .floor = precision.floor,
          .most_skips = precision.most_skips};
}

void LossScale::resume(const LossScaleState& saved) {
  const bool had_none = saved == LossScaleState{};
  state_ = saved;
  if (!options_.dynamic || had_none) state_.scale = options_.first;
}

void LossScale::update(bool overflow) {
  if (overflow) return skip();
  state_.skips_in_a_row = 0;
  state_.clean_steps += 1;
  if (!options_.dynamic || state_.clean_steps < options_.growth_steps) return;
  state_.scale = std::min(2 * state_.scale, std::max(kMost, options_.first));
  state_.clean_steps = 0;
}

void LossScale::skip() {
  state_.clean_steps = 0;
  state_.skips_in_a_row += 1;
  state_.skipped_steps += 1;
  require_progress(state_.skips_in_a_row);
  if (options_.dynamic) state_.scale = std::max(state_.scale / 2, options_.floor);
}

void LossScale::require_progress(int64_t skips_in_a_row) const {
  if (skips_in_a_row < options_.most_skips) return;
  throw TrainingError(
      fmt::format("{} step{} in a row {} skipped, because gradients are not finite, now with a loss scale of {}; {}",
                  skips_in_a_row, skips_in_a_row == 1 ? "" : "s", skips_in_a_row == 1 ? "was" : "were", state_.scale,
                  options_.dynamic ? "no scale helps: the run has diverged, or precision.loss_scale began too high for "
                                     "precision.most_skips halvings"
                                   : "try a lower precision.loss_scale, or precision.loss_scaling = \"dynamic\""));
}

LossScaleRule LossScale::rule() const {
  return {.dynamic = options_.dynamic,
          .growth_steps = static_cast<double>(options_.growth_steps),
          .floor = options_.floor,
          .most = std::max(kMost, options_.first)};
}

void LossScale::settle(const LossScaleState& state, int64_t skips_in_a_row) {
  state_ = state;
  require_progress(skips_in_a_row);
}

}  // namespace paceline
