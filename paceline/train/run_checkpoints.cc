#include "paceline/train/run_checkpoints.h"

#include <fmt/format.h>

#include "paceline/collectives/group_text.h"
#include "paceline/train/step_undo.h"

namespace paceline {

RunCheckpoints::RunCheckpoints(const Parts& parts)
    : parts_(parts),
      store_(parts_.folder.checkpoints(), parts_.recipe.checkpoint.keep, parts_.log),
      group_checkpoint_(store_, parts_.group, parts_.model, parts_.optimizer, parts_.strategy.reducer(), parts_.share,
                        parts_.strategy.under_way()) {}

// What an optimizer has gathered means something to the same optimizer only, whatever its tensors are called.
void RunCheckpoints::require_same_state() const {
  std::string key, before;
  const Recipe& recipe = parts_.recipe;
  if (parts_.earlier.recipe) {
    const Recipe& began = *parts_.earlier.recipe;
    const Recipe::Optimizer &then = began.optimizer, &now = recipe.optimizer;
    const auto require = [&](const char* name, bool same, const std::string& value) {
      if (!same && key.empty()) key = name, before = value;
    };
    require("optimizer.name", then.name == now.name, then.name);
    require("optimizer.momentum_correction", then.momentum_correction == now.momentum_correction,
            then.momentum_correction ? "true" : "false");
    require("optimizer.average", (then.average > 0) == (now.average > 0), fmt::format("{}", then.average));
    require("sync.rate", began.sync.rate == recipe.sync.rate, began.sync.rate);
  }
  key = broadcast_text(parts_.group, key, 0);
  before = broadcast_text(parts_.group, before, 0);
  if (key.empty()) return;
  recipe.refuse(key,
                fmt::format("the run began with {}, and its checkpoints hold the optimizer's state for that; go on as "
                            "it began, or begin another run with --out",
                            before));
}

RunState RunCheckpoints::resume(const RunState& first) {
  require_same_state();
  const Recipe& recipe = parts_.recipe;
  const EarlierRun& earlier = parts_.earlier;
  const int ranks = parts_.group.size();
  const GroupCheckpoint::Resumed resumed = group_checkpoint_.resume(first, earlier.from);
  RunState state = resumed.state;
  resume_loss_scale(state);
  if (state.seed != recipe.train.seed)
    recipe.refuse("train.seed", fmt::format("the run began with seed {}", state.seed));
  const StaleSum* const sums = parts_.strategy.under_way();
  if (resumed.sums_under_way > (sums ? sums->staleness() : 0))
    recipe.refuse(sums ? "sync.staleness" : "sync.policy",
                  fmt::format("gradients of {} step{} are under way, which would be lost; go on with sync.policy = "
                              "\"stale_allreduce\" and sync.staleness = {} or more",
                              resumed.sums_under_way, resumed.sums_under_way == 1 ? "" : "s", resumed.sums_under_way));
  require_possible_position(state);
  store_.set_aside(earlier.damaged);
  if (!earlier.from) return state;
  told_ = state.step;
  if (parts_.log == nullptr) return state;
  const std::string folder = earlier.from->folder.string();
  parts_.log->info("resuming from {} (epoch {:.4g})", folder,
                   static_cast<double>(state.cursor_samples) / static_cast<double>(parts_.data_size));
  if (resumed.ranks_before != ranks)
    parts_.log->info("it was written by {} rank{}, {} go on: the same samples, but not the same bits",
                     resumed.ranks_before, resumed.ranks_before == 1 ? "" : "s", ranks);
  else if (ranks > 1 && earlier.plan != parts_.strategy.plan_json())
    parts_.log->warning("the plan of {} does not serve this run: gradients are summed by another, and bits may differ",
                        folder);
  return state;
}

// What a codec owes is of gradients with the scale that the run had.
void RunCheckpoints::resume_loss_scale(RunState& state) {
  const double before = state.loss_scale.scale;
  LossScaler* const scaler = parts_.scaler;
  if (scaler) scaler->resume(state.loss_scale);
  state.loss_scale = scaler ? scaler->state() : LossScaleState{.skipped_steps = state.loss_scale.skipped_steps};
  if (state.step > 0) scale_debts(parts_.strategy.reducer(), state.loss_scale.scale / before);
}

// A position that the recipe cannot have led to would train on the wrong samples, or on none.
void RunCheckpoints::require_possible_position(const RunState& state) const {
  if (!parts_.earlier.recipe) return;
  const Recipe &before = *parts_.earlier.recipe, &now = parts_.recipe;
  const bool same_data = before.data.name == now.data.name && before.data.train_samples == now.data.train_samples;
  const double epoch = static_cast<double>(state.cursor_samples) / static_cast<double>(parts_.data_size);
  const bool beyond = same_data && before.train.epochs > 0 && epoch >= before.train.epochs + 1;
  if (!beyond && state.cursor_samples >= static_cast<uint64_t>(state.step)) return;
  throw DataError(fmt::format("{}: {} samples after {} steps, of {} epochs of {} samples; no run leaves that",
                              (parts_.earlier.from->folder / "state.json").string(), state.cursor_samples, state.step,
                              before.train.epochs, parts_.data_size));
}

void RunCheckpoints::report_changes() const {
  if (parts_.log == nullptr || !parts_.earlier.recipe) return;
  for (const std::string& change : recipe_changes(*parts_.earlier.recipe, parts_.recipe))
    parts_.log->warning("the recipe has changed since the run began: {}", change);
}

RunTexts RunCheckpoints::texts() const {
  return {.recipe = print_recipe(parts_.recipe), .plan = parts_.group.size() > 1 ? parts_.strategy.plan_json() : ""};
}

void RunCheckpoints::write(const RunState& state,
                           const std::function<std::unique_ptr<EvaluationStatistics>()>& statistics) {
  const auto written = group_checkpoint_.write(state, keeps_files(), statistics, keeps_files() ? texts() : RunTexts());
  if (!written) return;
  if (parts_.log && written->step != told_) parts_.log->debug("wrote {}", written->folder.string());
  told_ = written->step;
  untried_ = written->step;
}

void RunCheckpoints::trust(const RunState& state) {
  if (!untried_ || state.step <= *untried_) return;
  untried_.reset();
  const AtWork at_work(parts_.group.monitor(), Chore::checkpoint);  // removes older ones
  store_.trust_newest();
}

void RunCheckpoints::trust_newest() {
  if (keeps_files()) store_.trust_newest();
}

std::string RunCheckpoints::give_up(const RunState& state) {
  if (!keeps_files()) return "";
  // The step that failed was the first from it, or the last of nothing but skipped ones. Ranks that are not in step
  // count a step that failed, so for them any checkpoint that no good step has followed is set aside.
  const bool is_spoilt = untried_ && (parts_.scaler || !parts_.strategy.is_in_step() || state.step <= *untried_);
  return store_.advice_after_divergence(is_spoilt);
}

}  // namespace paceline
