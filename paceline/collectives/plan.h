// Plan: which all-reduce a group uses for which sizes and types. Decided once, by rank 0, for all ranks. Pure.
//
// For every size the quickest one: by measured time where a profile has any, else by the cost model.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "paceline/collectives/cost_model.h"
#include "paceline/collectives/profile.h"

namespace paceline {

inline constexpr uint64_t kAnySize = std::numeric_limits<uint64_t>::max();

struct PlanStep {
  uint64_t up_to_bytes = kAnySize;
  std::string algorithm;
  bool operator==(const PlanStep&) const = default;
};

struct Plan {
  Grid grid;
  bool measured = false;                         // by a profile; else by the model
  std::map<DType, std::vector<PlanStep>> steps;  // of every type that is reduced: rising, the last up to kAnySize

  const std::string& algorithm(DType dtype, uint64_t bytes) const;
  std::vector<std::string> algorithms() const;  // that it uses, each once, in the registry's order
  bool operator==(const Plan&) const = default;
};

// Decided at each power of two from 256 bytes to 1 GiB; a step ends half way (in logarithms) to the next. One that is
// within 3 % of the quickest goes on with what the size below uses, so that plans are short and stable.
Plan make_plan(const Cluster& cluster, Grid grid, const Profile* profile);

std::string print_plan(const Plan& plan);  // JSON
Plan parse_plan(const std::string& text);
// A line for people per list of steps, with the types that have it: "f32, f16: direct_eager up to 23.2KB, then direct"
std::string describe(const Plan& plan);

}  // namespace paceline
