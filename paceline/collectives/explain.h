// Explain: every algorithm that applies, what it costs, which one is chosen, and why. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/collectives/cost_model.h"

namespace paceline {

using Measured = std::map<std::string, double>;  // seconds by algorithm

struct Candidate {
  std::string name;
  std::string summary;
  Cost cost;  // predicted
  std::optional<double> measured_seconds;
  double share_of_bound = 0;  // of seconds(): 1 is as fast as the links allow; 0 where there is nothing to send

  double seconds() const { return measured_seconds.value_or(cost.seconds); }
};

// The best first, by measured time where there is one, else by the predicted; equal ones in the registry's order.
std::vector<Candidate> all_reduce_candidates(const Cluster& cluster, Grid grid, uint64_t bytes,
                                             const Measured& measured);

// Which one is chosen and why against the next best, in one sentence.
std::string explain_choice(const Cluster& cluster, const std::vector<Candidate>& candidates);

// That sentence, and a table of all candidates.
std::string explain_all_reduce(const Cluster& cluster, Grid grid, uint64_t bytes, const Measured& measured);

}  // namespace paceline
