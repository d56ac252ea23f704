// LossScale: by how much the loss is multiplied, so that small gradients stay inside the range of 16-bit numbers.
//
// A dynamic scale doubles after `growth_steps` steps without overflow; a step that overflowed is skipped and halves it,
// down to the floor. A static one stays. A state machine: it knows of no tensors, and is told after each step how it
// went. Every rank that is told the same is in the same state.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "paceline/core/recipe.h"
#include "paceline/kernels/loss_scale.h"

namespace paceline {

// Goes into checkpoints and comes back exactly.
struct LossScaleState {
  double scale = 1;
  int64_t clean_steps = 0;     // since the scale changed or a step was skipped
  int64_t skips_in_a_row = 0;  // until now
  int64_t skipped_steps = 0;   // of the whole run

  bool operator==(const LossScaleState&) const = default;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(LossScaleState, scale, clean_steps, skips_in_a_row, skipped_steps)
};

struct LossScaleOptions {
  bool dynamic = true;
  double first = 65536;  // of a static one: always
  int64_t growth_steps = 2000;
  double floor = 1;
  int64_t most_skips = 50;
};

class LossScale {
 public:
  static constexpr double kMost = 0x1p40;  // it grows no further: a run whose gradients are all 0 would, for ever

  explicit LossScale(const LossScaleOptions& options) : options_(options), state_{.scale = options.first} {}

  double value() const { return state_.scale; }
  const LossScaleState& state() const { return state_; }
  // A static scale stays the recipe's; a dynamic one goes on from where it was, unless the run had none.
  void resume(const LossScaleState& saved);

  // After a step with this scale. An overflow means that the step must be skipped. Throws TrainingError when that is
  // one too many in a row.
  void update(bool overflow);

  // What update() does, for a state that lives elsewhere (kernels/loss_scale.h), and what became of it there after some
  // steps, of which up to `skips_in_a_row` were skipped. Throws as update() does.
  LossScaleRule rule() const;
  void settle(const LossScaleState& state, int64_t skips_in_a_row);

 private:
  void skip();
  void require_progress(int64_t skips_in_a_row) const;

  LossScaleOptions options_;
  LossScaleState state_;
};

LossScaleOptions loss_scale_options(const Recipe::Precision& precision);  // REQUIRES: loss_scaling is not "none"

}  // namespace paceline
