// Trainer: runs a recipe on a group of ranks, from the first step to the last, and leaves a run folder.
//
//   auto group = make_local_group();
//   Log log(stderr_console());
//   const Summary summary = Trainer(recipe, *group, {.run_folder = {"runs/mine"}, .log = &log}).run();
//
// Two runs of one recipe on the same number of ranks and threads give the same bits, also when one was interrupted.
// Rank 0 writes all files; the others need none of its folders.
#pragma once

#include <memory>
#include <stop_token>

#include "paceline/comm/group.h"
#include "paceline/core/clock.h"
#include "paceline/core/log.h"
#include "paceline/core/recipe.h"
#include "paceline/gradients/statistics_share.h"
#include "paceline/metrics/progress.h"
#include "paceline/metrics/timeline.h"
#include "paceline/schedule/batch_size.h"
#include "paceline/schedule/schedule.h"
#include "paceline/train/catalog.h"
#include "paceline/train/divergence.h"
#include "paceline/train/earlier_run.h"
#include "paceline/train/evaluator.h"
#include "paceline/train/lone_divergence.h"
#include "paceline/train/run_book.h"
#include "paceline/train/run_checkpoints.h"
#include "paceline/train/run_costs.h"
#include "paceline/train/run_folder.h"
#include "paceline/train/run_length.h"
#include "paceline/train/strategies/step_strategy.h"
#include "paceline/train/training_window.h"

namespace paceline {

struct TrainerOptions {
  RunFolder run_folder;          // of rank 0; an empty root leaves nothing on disk
  bool resume = false;           // go on from the newest intact checkpoint in it, if there is one
  Log* log = nullptr;            // of rank 0
  Progress* progress = nullptr;  // of rank 0
  std::filesystem::path trace;   // rank 0 writes a Chrome trace of all ranks there; empty: none. The same on every rank
  std::stop_token stop;          // asked in each step: write a checkpoint and end
  Catalog catalog;
  bool as_on_device = false;  // take steps as on a GPU, where nobody waits for an outcome: for tests
};

class Trainer {
 public:
  // Opens the data and builds the model. Throws RecipeError and DataError, also where ranks differ in recipe or data.
  Trainer(Recipe recipe, Group& group, TrainerOptions options);
  ~Trainer();

  // Throws TrainingError when loss, gradients or weights are no longer finite; older checkpoints are then as they were.
  Summary run();

  Model& model() { return *model_; }

 private:
  void begin();
  void make_all_steps();
  void make_step();
  StepInputs next_inputs(const TrainingBatch& batch) const;
  void share_statistics(const TrainingBatch& batch);
  void note_what_is_due(double epoch_before);
  // Reads the outcomes of all steps so far, which waits for a device.
  void drain();
  // The same, before whatever all ranks do together.
  void meet();
  void evaluate();
  void record_window();
  void write_due_checkpoint();
  void write_checkpoint();
  void diverge(const StepPlace& place, const std::string& what, bool all_know);
  bool finished();  // and why: ending_
  Summary summarise();
  EvaluationStatistics statistics() { return {*model_, recipe_, data_, group_, share_.weight()}; }
  bool keeps_files() const { return group_.rank() == 0 && !options_.run_folder.root.empty(); }
  Log* log() const { return group_.rank() == 0 ? options_.log : nullptr; }

  const EarlierRun earlier_;  // rank 0's
  const Recipe recipe_;
  Group& group_;
  TrainerOptions options_;
  SteadyClock clock_;
  torch::Device device_;

  DatasetPair data_;
  std::shared_ptr<Model> model_;
  BatchSchedule batch_;
  std::unique_ptr<Optimizer> optimizer_;
  Schedule rate_;
  Schedule momentum_;
  const RunLength length_;
  const RecordRhythm rhythm_;
  std::unique_ptr<LossScaler> scaler_;
  std::unique_ptr<Timeline> timeline_;
  LoneDivergence divergence_;
  std::unique_ptr<StepStrategy> strategy_;
  StatisticsShare share_;
  RunState state_;
  RunCheckpoints checkpoints_;
  TrainingWindow window_;
  RunCosts costs_;
  RunBook book_;
  std::string ending_;
  struct Due {  // after the last step
    bool evaluation = false, checkpoint = false, record = false, end = false;
  };
  Due due_;
  bool record_due_ = false;
  bool checkpoint_due_ = false;
  double computed_s_ = 0;                  // in the last step
  bool stop_asked_ = false;                // by any rank, in the last step
  std::vector<LayerFigures> layers_seen_;  // by the last diagnosis

  // Made by begin(), when the position in the data is known.
  std::unique_ptr<Batches> batches_;
  std::unique_ptr<Evaluator> evaluator_;
};

}  // namespace paceline
