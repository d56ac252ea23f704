// What a recipe plans, to look at: rate, momentum and global batch over the epochs.
#pragma once

#include <string>
#include <vector>

#include "paceline/schedule/batch_size.h"
#include "paceline/schedule/schedule.h"

namespace paceline {

struct SchedulePlan {
  std::string title;
  double epochs = 0;            // drawn from 0 to here
  std::vector<double> changes;  // epochs at which something may jump or bend, in increasing order: exact, and marked
  Schedule rate, momentum;
  BatchSchedule batch = 1;
};

// An SVG of three panels, one below the other. REQUIRES: epochs > 0
std::string schedule_chart_svg(const SchedulePlan& plan);

}  // namespace paceline
