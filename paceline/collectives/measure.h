// Measuring all-reduces beside each other: in every round each contender once, so that a noisy machine disturbs all
// alike; and checking that what they compute is right. The same for the benchmark and for the planner's profile.
//
// A batch of calls lasts about 2 ms; its time is that of the slowest rank, which all ranks know: what they must agree
// on, calls and rounds, follows from such times only.
#pragma once

#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "paceline/comm/group.h"

namespace paceline {

// All contenders have as many elements.
struct Contender {
  std::string engine;
  std::string algorithm;
  TensorView buffer;          // what run() reduces, by sum
  std::function<void()> run;  // every rank calls it
};

struct MeasureOptions {
  int trials = 15;
  int fewest_trials = 5;
  double batch_s = 2e-3;
  double budget_s = 3;  // trials become fewer, down to the fewest, where they would take longer together
  // A contender that takes so many times as long as the quickest gets the fewest trials.
  double hopeless = std::numeric_limits<double>::infinity();
};

struct Timing {  // of one call
  double median_s = 0;
  double lower_quartile_s = 0;
  double upper_quartile_s = 0;
  int trials = 0;
  int calls = 0;  // in each
};

// One per contender, the same on every rank. `coordination` holds the same ranks as what is measured, best another
// group of them.
std::vector<Timing> time_interleaved(Group& coordination, std::span<const Contender> contenders,
                                     const MeasureOptions& options);

// Fills the contender's buffer with known numbers, other ones on every rank, and runs it. Returns the largest error of
// any element on any rank, divided by the sum of that element's magnitudes over the ranks (infinite for NaN). Leaves
// zeros. REQUIRES: f32
double largest_error(Group& coordination, const Contender& contender);
// What rounding can come to in that measure, in whichever order f32 are added.
double largest_rounding(int ranks);

// Sorted values; the one at `part` of the way (0.5: the median), between two neighbours in proportion.
double quantile(std::span<const double> sorted, double part);

}  // namespace paceline
