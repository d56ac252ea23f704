// A profile of a group, measured now: every algorithm that applies, at sizes from 1 KiB to 64 MiB in powers of 4.
//
// Takes some five times the largest size in memory of the group per rank; where /dev/shm has less room, the largest
// sizes are left out.
#pragma once

#include <vector>

#include "paceline/collectives/cost_model.h"
#include "paceline/collectives/profile.h"
#include "paceline/comm/group.h"

namespace paceline {

// Every rank calls it and gets the same.
Fingerprint fingerprint_of(Group& group, Grid grid);

struct ProfileOptions {
  std::vector<DType> dtypes = {DType::f32};
  uint64_t smallest_bytes = 1 << 10;
  uint64_t largest_bytes = 64 << 20;
  int trials = 21;
  double budget_s = 15;  // about; when it is spent, larger sizes are left out
};

// Every rank calls it and gets the same. Measures twice, some seconds apart: a machine that is disturbed changes the
// order of algorithms for longer than a round of trials lasts.
Profile measure_profile(Group& group, Grid grid, const ProfileOptions& options);

// The median, over rows of both, of the slower time divided by the quicker one; 1 without rows.
double disagreement_of(const std::vector<ProfileRow>& first, const std::vector<ProfileRow>& second);

// Two measurements of the same rows as one. How many times as slow as the quickest of its size an algorithm is, is
// taken from the worse of the two; the quickest's own time from the better.
std::vector<ProfileRow> combined(const std::vector<ProfileRow>& first, const std::vector<ProfileRow>& second);

}  // namespace paceline
