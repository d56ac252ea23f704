// RunCheckpoints: the checkpoints of a run over ranks: how the run goes on from one, how one is written, and when it is
// trusted, so that older ones may go.
//
// A checkpoint is trusted when a step has been made from it: weights can be finite and lead nowhere. Every rank calls
// everything here, after the same steps; rank 0 has the files.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "paceline/core/log.h"
#include "paceline/core/recipe.h"
#include "paceline/train/earlier_run.h"
#include "paceline/train/group_checkpoint.h"
#include "paceline/train/run_folder.h"
#include "paceline/train/strategies/step_strategy.h"

namespace paceline {

class RunCheckpoints {
 public:
  // What a run is made of. All of it must outlive this.
  struct Parts {
    const Recipe& recipe;
    const EarlierRun& earlier;  // rank 0's
    Group& group;
    Model& model;
    Optimizer& optimizer;
    StepStrategy& strategy;
    StatisticsShare& share;
    LossScaler* scaler = nullptr;  // null without loss scaling
    uint64_t data_size = 0;
    RunFolder folder;    // of rank 0; an empty root: nothing is written
    Log* log = nullptr;  // of rank 0
  };
  explicit RunCheckpoints(const Parts& parts);

  // Puts model, optimizer and strategy where the earlier run was, and returns its state; `first` where there was none.
  // Throws RecipeError where the recipe does not go with the state, DataError where no run leads there.
  RunState resume(const RunState& first);

  RunTexts texts() const;  // what each checkpoint holds beside tensors and state
  // The run may go on under another recipe (a longer one, say): the log says what has changed.
  void report_changes() const;

  // `statistics` makes what the saved weights are to have, for as long as the result lives.
  void write(const RunState& state, const std::function<std::unique_ptr<EvaluationStatistics>()>& statistics);

  // After steps whose outcomes are known and good.
  void trust(const RunState& state);
  void trust_newest();  // the final test has gone well with it

  // Of a run that has diverged at `state`: keeps the newest checkpoint apart where nothing good came of it. Returns
  // advice that names the last good one, or nothing.
  std::string give_up(const RunState& state);

 private:
  void require_same_state() const;
  void require_possible_position(const RunState& state) const;
  void resume_loss_scale(RunState& state);
  bool keeps_files() const { return parts_.group.rank() == 0 && !parts_.folder.root.empty(); }

  Parts parts_;
  CheckpointStore store_;
  GroupCheckpoint group_checkpoint_;
  int64_t told_ = -1;               // the step of the checkpoint that the log knows of
  std::optional<int64_t> untried_;  // the step of the checkpoint that no step has been made from yet
};

}  // namespace paceline
