// How a Trainer writes its checkpoints and goes on from one, and what must not have changed since.
#include <fmt/format.h>

#include "paceline/collectives/group_text.h"
#include "paceline/train/evaluation_statistics.h"
#include "paceline/train/trainer.h"

namespace paceline {

// What an optimizer has gathered means something to the same optimizer only, whatever its tensors are called.
void Trainer::require_same_state() {
  std::string key, before;
  if (earlier_.recipe) {
    const Recipe& began = *earlier_.recipe;
    const Recipe::Optimizer &then = began.optimizer, &now = recipe_.optimizer;
    const auto require = [&](const char* name, bool same, const std::string& value) {
      if (!same && key.empty()) key = name, before = value;
    };
    require("optimizer.name", then.name == now.name, then.name);
    require("optimizer.momentum_correction", then.momentum_correction == now.momentum_correction,
            then.momentum_correction ? "true" : "false");
    require("optimizer.average", (then.average > 0) == (now.average > 0), fmt::format("{}", then.average));
    require("sync.rate", began.sync.rate == recipe_.sync.rate, began.sync.rate);
  }
  key = broadcast_text(group_, key, 0);
  before = broadcast_text(group_, before, 0);
  if (key.empty()) return;
  recipe_.refuse(key,
                 fmt::format("the run began with {}, and its checkpoints hold the optimizer's state for that; go on as "
                             "it began, or begin another run with --out",
                             before));
}

void Trainer::resume() {
  require_same_state();
  const GroupCheckpoint::Resumed resumed = group_checkpoint_.resume(state_, earlier_.from);
  state_ = resumed.state;
  window_.resume();
  resume_loss_scale();
  if (state_.seed != recipe_.train.seed)
    recipe_.refuse("train.seed", fmt::format("the run began with seed {}", state_.seed));
  if (resumed.sums_under_way > (stale_ ? stale_->staleness() : 0))
    recipe_.refuse(stale_ ? "sync.staleness" : "sync.policy",
                   fmt::format("gradients of {} step{} are under way, which would be lost; go on with sync.policy = "
                               "\"stale_allreduce\" and sync.staleness = {} or more",
                               resumed.sums_under_way, resumed.sums_under_way == 1 ? "" : "s", resumed.sums_under_way));
  require_possible_position();
  checkpoints_.set_aside(earlier_.damaged);
  if (earlier_.from) {
    checkpoint_told_ = state_.step;
    if (log()) log()->info("resuming from {} (epoch {:.4g})", earlier_.from->folder.string(), epoch());
    if (log() && resumed.ranks_before != group_.size())
      log()->info("it was written by {} rank{}, {} go on: the same samples, but not the same bits",
                  resumed.ranks_before, resumed.ranks_before == 1 ? "" : "s", group_.size());
    if (log() && resumed.ranks_before == group_.size() && group_.size() > 1 && earlier_.plan != plan_json())
      log()->warning("the plan of {} does not serve this run: gradients are summed by another, and bits may differ",
                     earlier_.from->folder.string());
  } else if (options_.resume && log()) {
    log()->info("no {} in {}{}: starting from the beginning",
                earlier_.damaged.empty() ? "checkpoint" : "intact checkpoint",
                options_.run_folder.checkpoints().string(), earlier_.damaged.empty() ? " yet" : "");
  }
}

// What a codec owes is of gradients with the scale that the run had.
void Trainer::resume_loss_scale() {
  const double before = state_.loss_scale.scale;
  if (scaler_) scaler_->resume(state_.loss_scale);
  state_.loss_scale = scaler_ ? scaler_->state() : LossScaleState{.skipped_steps = state_.loss_scale.skipped_steps};
  if (state_.step > 0) scale_debts(*reducer_, state_.loss_scale.scale / before);
}

// A position that the recipe cannot have led to would train on the wrong samples, or on none.
void Trainer::require_possible_position() {
  if (!earlier_.recipe) return;
  const Recipe& before = *earlier_.recipe;
  const bool same_data =
      before.data.name == recipe_.data.name && before.data.train_samples == recipe_.data.train_samples;
  const bool beyond = same_data && before.train.epochs > 0 && epoch() >= before.train.epochs + 1;
  if (!beyond && state_.cursor_samples >= static_cast<uint64_t>(state_.step)) return;
  throw DataError(fmt::format("{}: {} samples after {} steps, of {} epochs of {} samples; no run leaves that",
                              (earlier_.from->folder / "state.json").string(), state_.cursor_samples, state_.step,
                              before.train.epochs, data_.train->size()));
}

// A run may go on under another recipe (a longer one, say); nobody should have to guess later what it was trained with.
void Trainer::report_changes() {
  if (!log() || !earlier_.recipe) return;
  for (const std::string& change : recipe_changes(*earlier_.recipe, recipe_))
    log()->warning("the recipe has changed since the run began: {}", change);
}

// What of it lies in the run's folder is for people; a run goes on with that of its checkpoints.
RunTexts Trainer::texts() const {
  return {.recipe = print_recipe(recipe_), .plan = group_.size() > 1 ? plan_json() : ""};
}

// When steps after it are known to have gone well; one that was skipped tells nothing.
void Trainer::trust_checkpoint() {
  if (!untried_checkpoint_ || state_.step <= *untried_checkpoint_ || !diverged_.empty()) return;
  if (scaler_ && state_.loss_scale.skips_in_a_row > 0) return;
  untried_checkpoint_.reset();
  const AtWork at_work(group_.monitor(), Chore::checkpoint);  // removes older ones
  checkpoints_.trust_newest();
}

// Not while steps are skipped: a run that has diverged skips all of them, and would push out the checkpoints of before.
void Trainer::write_due_checkpoint() {
  checkpoint_due_ |= due_.checkpoint;
  if (!checkpoint_due_) return;
  if (scaler_) meet();  // then it is known
  if (scaler_ && state_.loss_scale.skips_in_a_row > 0) return;
  checkpoint_due_ = false;
  write_checkpoint();
}

void Trainer::write_checkpoint() {
  meet();
  require_finite_weights();
  window_.gather_for_checkpoint([&] {
    if (recorder_) recorder_->flush();
    const auto statistics = [&] {
      return std::make_unique<EvaluationStatistics>(*model_, recipe_, data_, group_, share_.weight());
    };
    const auto written =
        group_checkpoint_.write(state_, keeps_files(), statistics, keeps_files() ? texts() : RunTexts());
    if (!written) return;
    if (log() && written->step != checkpoint_told_) log()->debug("wrote {}", written->folder.string());
    checkpoint_told_ = written->step;
    untried_checkpoint_ = written->step;
  });
  speed_.skip_to(clock_.now_ns());
}

}  // namespace paceline
