#include "paceline/metrics/step_costs.h"

#include <algorithm>

namespace paceline {

StepCosts& StepCosts::operator+=(const StepCosts& other) {
  steps += other.steps;
  step_s += other.step_s;
  compute_s += other.compute_s;
  communication_s += other.communication_s;
  waiting_s += other.waiting_s;
  return *this;
}

// A step may wait longer than the communication thread works: until that thread is scheduled, for one.
double overlap(const StepCosts& costs) {
  if (!(costs.communication_s > 0)) return 1;
  return std::clamp(1 - costs.waiting_s / costs.communication_s, 0.0, 1.0);
}

double efficiency(const StepCosts& costs) {
  const double both_s = costs.compute_s + costs.waiting_s;
  return both_s > 0 ? costs.compute_s / both_s : 1;
}

double single_device_s(double seconds, int ranks) { return seconds * ranks; }

GroupCosts group_costs(std::span<const StepCosts> ranks) {
  GroupCosts costs{.ranks = static_cast<int>(ranks.size())};
  StepCosts all;
  for (const StepCosts& rank : ranks) {
    all += rank;
    costs.seconds = std::max(costs.seconds, rank.step_s);
  }
  costs.single_device_s = single_device_s(costs.seconds, costs.ranks);
  if (all.steps > 0) {
    const auto local_steps = static_cast<double>(all.steps);
    costs.compute_per_step_s = all.compute_s / local_steps;
    costs.communication_per_step_s = all.communication_s / local_steps;
    costs.waiting_per_step_s = all.waiting_s / local_steps;
  }
  costs.overlap = overlap(all);
  costs.efficiency = efficiency(all);
  return costs;
}

}  // namespace paceline
