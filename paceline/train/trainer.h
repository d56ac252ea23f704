// Trainer: runs a recipe on a group of ranks, from the first step to the last, and leaves a run folder.
//
//   auto group = make_local_group();
//   Log log(stderr_console());
//   const Summary summary = Trainer(recipe, *group, {.run_folder = {"runs/mine"}, .log = &log}).run();
//
// Two runs of one recipe on the same number of ranks and threads give the same bits, also when one was interrupted.
#pragma once

#include <memory>
#include <stop_token>
#include <vector>

#include "paceline/comm/group.h"
#include "paceline/core/clock.h"
#include "paceline/core/log.h"
#include "paceline/core/recipe.h"
#include "paceline/metrics/meters.h"
#include "paceline/metrics/progress.h"
#include "paceline/metrics/recorder.h"
#include "paceline/schedule/schedule.h"
#include "paceline/train/catalog.h"
#include "paceline/train/checkpoint.h"
#include "paceline/train/evaluator.h"
#include "paceline/train/run_folder.h"
#include "paceline/train/step.h"
#include "paceline/train/summary.h"

namespace paceline {

struct TrainerOptions {
  RunFolder run_folder;          // an empty root leaves nothing on disk
  bool resume = false;           // go on from the newest intact checkpoint in it, if there is one
  Log* log = nullptr;            // of rank 0
  Progress* progress = nullptr;  // of rank 0
  std::stop_token stop;          // asked between steps: write a checkpoint and end
  Catalog catalog;
};

class Trainer {
 public:
  // Opens the data and builds the model. Throws RecipeError, DataError.
  Trainer(Recipe recipe, Group& group, TrainerOptions options);
  ~Trainer();

  // Throws TrainingError when the loss is no longer finite.
  Summary run();

  Model& model() { return *model_; }

 private:
  void begin();
  void report_changes();
  void make_step();
  void drain();  // reads the outcomes of the steps so far into the window
  void gather_window();
  void clear_window_sums();
  void record_window();
  void evaluate();
  void write_checkpoint();
  bool finished();  // and why: ending_
  bool stop_requested();
  void show_progress();
  double epoch() const;
  double rate_at(double epoch) const { return rate_(epoch); }
  uint64_t total_samples() const;
  int64_t total_steps() const;
  double total_epochs() const;
  bool keeps_files() const { return group_.rank() == 0 && !options_.run_folder.root.empty(); }
  Summary summarise();

  const Recipe recipe_;
  Group& group_;
  TrainerOptions options_;
  SteadyClock clock_;
  torch::Device device_;
  uint64_t global_batch_;

  DatasetPair data_;
  std::shared_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  Schedule rate_;
  CheckpointStore checkpoints_;
  RunState state_;
  std::string ending_;

  // Made by begin(), when the position in the data is known.
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<BatchTensors> tensors_;
  std::unique_ptr<TrainStep> step_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<Recorder> recorder_;
  std::vector<StepOutcome> pending_;  // steps whose outcome was not read yet
  RateMeter speed_;
};

}  // namespace paceline
