// RunBook: what a run tells people: lines of metrics, the progress line, evaluations and what follows from them (best,
// target), the summary. Runs over ranks (Trainer) and runs on a parameter server (Chief) keep the same book.
//
// The numbers live in the run's RunState, which checkpoints hold. Nothing here talks to other ranks.
#pragma once

#include <optional>

#include "paceline/core/clock.h"
#include "paceline/core/log.h"
#include "paceline/core/recipe.h"
#include "paceline/data/dataset.h"
#include "paceline/metrics/meters.h"
#include "paceline/metrics/progress.h"
#include "paceline/metrics/recorder.h"
#include "paceline/train/evaluator.h"
#include "paceline/train/run_folder.h"
#include "paceline/train/run_length.h"
#include "paceline/train/run_state.h"
#include "paceline/train/summary.h"

namespace paceline {

struct RunBookOptions {
  RunFolder folder;
  Log* log = nullptr;            // null: silent
  Progress* progress = nullptr;  // null: none
};

// Where a run is, or was.
struct RunPlace {
  int64_t step = 0;
  double epoch = 0;
  double train_seconds = 0;
};

class RunBook {
 public:
  // Recipe, state and data must outlive this.
  RunBook(const Recipe& recipe, RunState& state, const DatasetPair& data, RunLength length, RunBookOptions options);

  // Begins metrics.jsonl, or goes on with it after `step`. Before that nothing is recorded.
  void open(int64_t step);
  bool is_open() const { return recorder_.has_value(); }
  // A line of the place where the run is; record_of() of one of several things. Nothing where the book is not open.
  void record(const std::string& kind, const Recorder::Values& values);
  void record_of(const std::string& kind, const std::string& which, const Recorder::Values& values);
  void flush();

  double epoch() const;
  RunPlace here() const { return {state_.step, epoch(), state_.train_seconds}; }

  // What an evaluation of the weights of `place` came to, which took `seconds`.
  void note_evaluation(const Evaluation& evaluation, const RunPlace& place, double seconds);
  bool reached_target() const { return recipe_.train.target_accuracy > 0 && state_.target_seconds >= 0; }
  // The final weights must be usable; an intermediate evaluation may still recover. Throws DivergenceError.
  void require_finite_test() const;

  // Samples that were trained since the last call; pause(): the time since then does not count.
  void note_samples(uint64_t samples) { speed_.add(static_cast<double>(samples), clock_.now_ns()); }
  void pause() { speed_.skip_to(clock_.now_ns()); }
  double samples_per_second() const { return speed_.per_second(); }

  // `steps`: of the run; 0: unknown. Losses below 0 are unknown.
  void show_progress(double loss, double accuracy, int64_t steps);
  void end_progress();

  // What recipe, data and state say of a summary.
  Summary summary(const std::string& ending) const;
  // Writes summary.json and curves.svg. REQUIRES: is_open()
  void leave(const Summary& summary);

 private:
  const Recipe& recipe_;
  RunState& state_;
  const DatasetPair& data_;
  RunLength length_;
  RunBookOptions options_;
  SteadyClock clock_;
  RateMeter speed_;
  std::optional<Recorder> recorder_;
};

}  // namespace paceline
