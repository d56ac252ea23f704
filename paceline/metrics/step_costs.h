// What training steps cost: how much of their time was computing, how much communication, and how much of that could be
// hidden behind computing. All pure.
#pragma once

#include <cstdint>
#include <span>

namespace paceline {

// Of one rank, summed over the steps of a window. The times need not add up: communication runs beside computing, and a
// step also loads its batch.
struct StepCosts {
  int64_t steps = 0;
  double step_s = 0;           // from the beginning of each step to its end
  double compute_s = 0;        // forward, backward, update
  double communication_s = 0;  // the communication thread was busy with buckets
  double waiting_s = 0;        // the step stood still for communication: the exposed part of it

  StepCosts& operator+=(const StepCosts& other);
  bool operator==(const StepCosts&) const = default;
};

// The share of communication that was hidden behind computing: 1 - waiting / communication, from 0 to 1. Without
// communication 1.
double overlap(const StepCosts& costs);

// The share of its computing speed that a rank keeps: computing / (computing + waiting), which is Lu's 1 / (1 + T_comm
// / T_comp) with the exposed part of T_comm. 1 when nothing was measured.
double efficiency(const StepCosts& costs);

// Lu's "actual average single-GPU time" of a run: what all devices spent on it. It compares methods, where the time
// alone compares how many devices somebody could pay for.
double single_device_s(double seconds, int ranks);

// Over all ranks of a window or run.
struct GroupCosts {
  int ranks = 0;
  double seconds = 0;                   // of the rank whose steps took longest
  double single_device_s = 0;           // see above, of these seconds
  double compute_per_step_s = 0;        // Zhang's Cp: of one local step, averaged over steps and ranks
  double communication_per_step_s = 0;  // Zhang's Cu, hidden or not
  double waiting_per_step_s = 0;
  double overlap = 1;  // of all ranks' times together
  double efficiency = 1;

  bool operator==(const GroupCosts&) const = default;
};

GroupCosts group_costs(std::span<const StepCosts> ranks);

}  // namespace paceline
