// TrainingWindow: loss and accuracy of the steps since the last line of metrics, over all ranks. The sums live in the
// run's state, so that a resumed run reports the same lines.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "paceline/comm/group.h"
#include "paceline/train/run_state.h"
#include "paceline/train/step.h"

namespace paceline {

// Which step, and where in the data its samples begin.
struct StepPlace {
  int64_t number = 0;  // counted from 1
  uint64_t cursor_samples = 0;
};

struct BadStep {
  StepPlace place;
  bool loss_finite = false;       // this rank's
  bool gradients_finite = false;  // all ranks'
};

class TrainingWindow {
 public:
  // The state is the run's; this fills its window_*.
  TrainingWindow(RunState& state, Group& group) : state_(state), group_(group) {}

  // Only one rank may go on with the sum of all, as it stands in a checkpoint.
  void resume() {
    if (group_.rank() != 0) clear_sums();
  }

  void add(StepOutcome outcome, StepPlace place) {
    pending_.push_back(std::move(outcome));
    places_.push_back(place);
    last_ = place;
  }
  // Reads the outcomes so far, which waits for the device. What a skipped step had for a loss does not count. The first
  // step whose gradient is not finite, which is the same on every rank; where there is none, the first whose loss is
  // not, which only this rank knows. What came after it counts no more.
  std::optional<BadStep> drain();

  // Every rank then has the sums of all. Every rank calls these.
  void gather();
  void gather_for_checkpoint(const std::function<void()>& write);
  // Gathers, moves the means to train_loss and train_accuracy, begins anew. False: every step was skipped, and the last
  // figures stay.
  bool close();

  const StepPlace& last() const { return last_; }  // that was added
  int64_t steps() const { return state_.window_steps; }
  // What a progress bar should show: a window that has only begun is noise, so until it is half full the last one
  // speaks.
  double shown_loss(int64_t full_steps) const;
  double shown_accuracy(int64_t full_steps) const;

 private:
  void bring_home();
  void clear_sums();
  bool speaks(int64_t full_steps) const;

  RunState& state_;
  Group& group_;
  std::vector<StepOutcome> pending_;  // steps whose outcome was not read yet
  std::vector<StepPlace> places_;     // theirs
  StepPlace last_;
};

}  // namespace paceline
