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
#include "paceline/metrics/meters.h"
#include "paceline/metrics/progress.h"
#include "paceline/metrics/recorder.h"
#include "paceline/metrics/timeline.h"
#include "paceline/schedule/batch_size.h"
#include "paceline/schedule/schedule.h"
#include "paceline/train/catalog.h"
#include "paceline/train/checkpoint.h"
#include "paceline/train/device_step.h"
#include "paceline/train/divergence.h"
#include "paceline/train/earlier_run.h"
#include "paceline/train/evaluator.h"
#include "paceline/train/group_checkpoint.h"
#include "paceline/train/run_costs.h"
#include "paceline/train/run_folder.h"
#include "paceline/train/run_length.h"
#include "paceline/train/serverless_policy.h"
#include "paceline/train/step.h"
#include "paceline/train/summary.h"
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
  void resume();
  void resume_loss_scale();
  void require_same_state();
  void require_possible_position();
  void report_changes();
  RunTexts texts() const;
  void warn_of_codec();
  void warn_of_lars();
  void open_batches();
  void make_step();
  void share_statistics(const TrainingBatch& batch);
  StepInputs next_inputs(const TrainingBatch& batch) const;
  bool diagnosis_is_due() const;
  void note_what_is_due(double epoch_before);
  StepOutcome take_step(const StepInputs& inputs, bool waits);
  void drain();
  void meet();
  void average_replicas();
  bool averages_now() const;
  [[noreturn]] void fail_together();
  double slow_down() const;
  std::string plan_text() const;
  std::string plan_json() const;
  Reducer::Cost take_cost();
  void record_window();
  void record_layers(const std::vector<LayerFigures>& layers);
  void diverge(const StepPlace& place, const std::string& what, bool all_know);
  void require_finite_weights();
  [[noreturn]] void explain(const DivergenceError& error);
  void evaluate();
  void write_checkpoint();
  void write_due_checkpoint();
  void trust_checkpoint();
  void require_finite_test();
  bool finished();  // and why: ending_
  bool reached_end() const;
  void show_progress();
  void write_trace();
  double epoch() const;
  uint64_t global_batch() const { return batch_.at(epoch()); }
  Group& step_group() const { return own_group_ ? *own_group_ : group_; }
  bool in_step() const { return !average_ && !stale_; }
  bool outcomes_come_late() const { return !device_.is_cpu() || options_.as_on_device; }
  bool keeps_files() const { return group_.rank() == 0 && !options_.run_folder.root.empty(); }
  Log* log() const { return group_.rank() == 0 ? options_.log : nullptr; }
  Summary summarise();

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
  std::unique_ptr<Group> own_group_;  // of this rank, where a step does not sum over all
  std::unique_ptr<Reducer> reducer_;
  std::unique_ptr<ReplicaAverage> average_;  // ranks train alone in between
  std::unique_ptr<StaleSum> stale_;          // steps apply what was computed before
  StatisticsShare share_;
  CheckpointStore checkpoints_;
  GroupCheckpoint group_checkpoint_;
  RunState state_;
  TrainingWindow window_;
  RunCosts costs_;
  std::string ending_;
  struct Due {  // after the last step
    bool evaluation = false, checkpoint = false, record = false, end = false;
  };
  Due due_;
  bool record_due_ = false;
  bool checkpoint_due_ = false;
  int64_t checkpoint_told_ = -1;               // the step of one that the log knows of
  std::optional<int64_t> untried_checkpoint_;  // the step of one that no step has been made from yet
  bool together_ = true;                       // all ranks have the same weights
  std::string diverged_;                       // what this rank has found and not all know yet
  ReplicaAverage::Samples since_average_;
  int64_t exchange_ns_ = 0;                // of synchronised statistics, in the last step
  double computed_s_ = 0;                  // in the last step
  bool stop_asked_ = false;                // by any rank, in the last step
  std::vector<LayerFigures> layers_seen_;  // by the last diagnosis

  // Made by begin(), when the position in the data is known.
  std::unique_ptr<Batches> batches_;
  std::unique_ptr<TrainStep> step_;
  std::unique_ptr<DeviceStep> device_step_;  // where steps need not wait for the device
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<Recorder> recorder_;
  RateMeter speed_;
};

}  // namespace paceline
