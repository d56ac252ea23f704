// Whether to sum gradients while backward still runs.
#pragma once

#include <cstdint>
#include <span>

#include "paceline/comm/group.h"

namespace paceline {

enum class Overlap { never, where_it_pays, always };

// Cores that a rank may use, and how many of them it computes with. Ranks with the same cores share them.
struct RankCores {
  int64_t first = 0;
  int64_t count = 1;
  int64_t computing = 1;
};

// Whether every rank has one more than it computes with.
bool cores_are_left(std::span<const RankCores> ranks);

// Between hosts overlap pays: waiting for a link takes no core. On one host the ranks move the bytes themselves, and
// with every core computing they would only push backward aside. `threads`: that compute on this rank. Every rank calls
// it; all get the same answer.
bool overlap_pays(Group& group, int threads);

}  // namespace paceline
