// Fold: how algorithms for a power of two run on any number of ranks. Let q be the largest power of two that fits. The
// p-q extra ranks first give their buffer to a partner among the q, and get the result from it in the end: 2α + 2nβ
// more, and nγ.
#pragma once

#include "paceline/collectives/cost_model.h"

namespace paceline {

struct Fold {
  Fold(int rank, int size) : ranks(1 << floor_log2(size)), rank(rank), extras(size - ranks) {}

  bool is_extra() const { return rank >= ranks; }
  bool has_extra() const { return rank < extras; }
  int partner() const { return is_extra() ? rank - ranks : rank + ranks; }

  int ranks;  // that stay, a power of two
  int rank;
  int extras;
};

// Folding in and out; nothing where the number of ranks is a power of two.
Cost fold_cost(const Cluster& cluster, double bytes);

// How many ranks of a host have their peer on another host, when all exchange with the rank at `distance`, a power of
// two.
int crossing_ranks(const Cluster& cluster, int distance);

}  // namespace paceline
