// RunCosts: what the steps of a run cost on every rank, window by window and in all, and who is slow.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/comm/group.h"
#include "paceline/metrics/step_costs.h"
#include "paceline/metrics/stragglers.h"

namespace paceline {

class RunCosts {
 public:
  // Every rank calls it. `host` is this rank's; `slowdowns` are those that the recipe asks for, of the first ranks.
  RunCosts(Group& group, const std::string& host, std::vector<double> slowdowns = {});

  // `samples`: this rank's in the step.
  void add(const StepCosts& step, int64_t samples) {
    window_ += step;
    window_samples_ += samples;
  }

  // Every rank calls it, at the end of a window, and learns of a rank that has been slow for long. Ranks with clearly
  // more or fewer samples than the others take another time by right: then nobody is slow.
  struct Window {
    GroupCosts costs;
    std::optional<std::string> straggler;
  };
  Window close_window();

  GroupCosts total() const;  // of all closed windows; the same on every rank

 private:
  Group& group_;
  StragglerWatch stragglers_;
  StepCosts window_;
  int64_t window_samples_ = 0;
  std::vector<StepCosts> totals_;  // of every rank
};

}  // namespace paceline
