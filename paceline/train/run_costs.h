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
  // Every rank calls it. `host` is this rank's.
  RunCosts(Group& group, const std::string& host);

  void add(const StepCosts& step) { window_ += step; }

  // Every rank calls it, at the end of a window. Rank 0 learns of a rank that has been slow for long.
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
  std::vector<StepCosts> totals_;  // of every rank
};

}  // namespace paceline
