// TrainingWindow: loss and accuracy of the steps since the last line of metrics, over all ranks. The sums live in the
// run's state, so that a resumed run reports the same lines.
#pragma once

#include <functional>
#include <vector>

#include "paceline/comm/group.h"
#include "paceline/train/run_state.h"
#include "paceline/train/step.h"

namespace paceline {

class TrainingWindow {
 public:
  // The state is the run's; this fills its window_*.
  TrainingWindow(RunState& state, Group& group) : state_(state), group_(group) {}

  // Only one rank may go on with the sum of all, as it stands in a checkpoint.
  void resume() {
    if (group_.rank() != 0) clear_sums();
  }

  void add(StepOutcome outcome) { pending_.push_back(std::move(outcome)); }
  // Reads the outcomes so far, which waits for the device. Throws DivergenceError when a loss or gradient is not
  // finite; what came after it then counts no more. What a skipped step had for a loss does not count.
  void drain(double epoch);

  // Every rank then has the sums of all. Every rank calls these.
  void gather();
  void gather_for_checkpoint(const std::function<void()>& write);
  void close();  // gathers, moves the means to train_loss and train_accuracy, begins anew

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
};

}  // namespace paceline
