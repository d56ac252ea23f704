// What a Trainer does about a run that diverged: nothing bad is kept, and people learn where it began.
#include <fmt/format.h>

#include "paceline/collectives/sum_over_ranks.h"
#include "paceline/models/state.h"
#include "paceline/train/finite_model.h"
#include "paceline/train/trainer.h"

namespace paceline {

// What a device has done is known some steps later. Where all ranks know, and none of these steps has changed the
// weights, the first one is made again, to see where it began. What one rank has found alone it keeps until all have
// heard of it.
void Trainer::diverge(const StepPlace& place, const std::string& what, bool all_know) {
  if (in_step() && all_know) {
    state_.step = place.number - 1;
    state_.cursor_samples = place.cursor_samples;
    batches_.reset();  // before the next ones are opened: a data set on the device is there once
    open_batches();
    step_->fail_again(next_inputs(batches_->next()), what);
  }
  const double epoch = static_cast<double>(place.cursor_samples) / static_cast<double>(data_.train->size());
  const std::string text =
      fmt::format("step {} (epoch {:.4g}): {}: the run diverged; {}", place.number, epoch, what, kAgainstDivergence);
  if (group_.size() == 1) throw DivergenceError(text);
  if (diverged_.empty()) diverged_ = text;
}

// What a run ends with is for use: of an evaluation in between one may still hope.
void Trainer::require_finite_test() {
  if (state_.test_loss >= 0) return;
  require_finite_weights();  // then their name tells more
  throw DivergenceError(
      fmt::format("step {} (epoch {:.4g}): the test loss is not finite: the run diverged, and no "
                  "checkpoint was written of its end; {}",
                  state_.step, epoch(), kAgainstDivergence));
}

// A checkpoint of weights that are not finite would push out one that can be used. Weights are the same on every rank,
// statistics are not: hence the sum.
void Trainer::require_finite_weights() {
  std::string first = first_not_finite(*model_);
  if (first.empty() && stale_ && !stale_->all_finite()) first = "a gradient that is under way";
  std::vector<int64_t> bad = {first.empty() ? 0 : 1};
  sum_over_ranks(group_, view(bad));
  if (bad[0] == 0) return;
  throw DivergenceError(
      fmt::format("step {} (epoch {:.4g}): {} is not finite after the update: the run diverged, and no "
                  "checkpoint was written of it; {}",
                  state_.step, epoch(), first.empty() ? "what another rank has" : first, kAgainstDivergence));
}

// Rank 0 tells; the others know no more.
void Trainer::explain(const DivergenceError& error) {
  if (log()) {
    constexpr size_t kMostLines = 8;
    if (!layers_seen_.empty())
      log()->warning("the layers that moved most in the last diagnosis:\n{}",
                     worst_layers_text(layers_seen_, kMostLines));
    const double unscale = scaler_ ? scaler_->gradient_scale() : 1;
    const auto layers = measure_layers(parameters_of(*model_), unscale);
    log()->warning("the layers as the run ended:\n{}", worst_layers_text(layers, kMostLines));
  }
  if (recorder_) recorder_->flush();
  std::string advice;
  if (keeps_files()) {
    // The step that failed was the first from it, or the last of nothing but skipped ones.
    const bool is_its = untried_checkpoint_ && (scaler_ || state_.step <= *untried_checkpoint_);
    if (is_its) checkpoints_.set_newest_aside();
    if (const auto checkpoints = checkpoints_.all(); !checkpoints.empty())
      advice = fmt::format("; the last checkpoint is {}", checkpoints.back().folder.string());
  }
  TrainingError explained(error.what() + advice);
  if (group_.rank() != 0) explained.set_told();
  throw explained;
}

}  // namespace paceline
