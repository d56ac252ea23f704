// RestartRule: which failures a launcher mends by starting processes again, and how often. Pure.
#pragma once

#include <map>

#include "paceline/launch/child_process.h"

namespace paceline {

class RestartRule {
 public:
  explicit RestartRule(int most) : most_(most) {}  // starts again, of each rank, and of all together; 0: none

  // Whether another start of the same command could end otherwise: not after a mistake in the command line, the recipe
  // or the data, a run that diverged, a Ctrl-C, or with a host that was lost.
  static bool may_help(const Ending& ending);

  bool may_start_rank(int rank, const Ending& ending) const;
  bool may_start_all(const Ending& root) const;          // `root`: of the rank whose failure ended the others
  int start_rank(int rank) { return ++of_rank_[rank]; }  // which start again it is, from 1
  int start_all() { return ++of_all_; }

  int most() const { return most_; }
  int starts(int rank) const;  // again, so far, alone and with all others

 private:
  const int most_;
  std::map<int, int> of_rank_;
  int of_all_ = 0;
};

}  // namespace paceline
