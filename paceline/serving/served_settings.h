// What servers, workers and the chief of a run must have in common, as text that can be compared (ps/run_mark.h).
#pragma once

#include <cstdint>
#include <string>

#include "paceline/core/recipe.h"

namespace paceline {

// The recipe's keys as lines "key = value", but for those that concern one process alone (its device, its threads,
// where its data lies, what the chief evaluates and keeps); and how many samples the training set has, whichever key
// says so.
std::string served_settings(const Recipe& recipe, uint64_t data_size);

}  // namespace paceline
