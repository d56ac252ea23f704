// What servers, workers and the chief of a run must have in common, as text that can be compared (ps/run_mark.h).
#pragma once

#include <string>

#include "paceline/core/recipe.h"
#include "paceline/data/dataset.h"

namespace paceline {

// The recipe's keys as lines "key = value", but for those that concern one process alone (its device, its threads,
// where its data lies, what the chief evaluates and keeps); and the training set: its size, whichever key says so, and
// a digest of its contents (data/data_digest.h).
std::string served_settings(const Recipe& recipe, const DatasetPair& data);

}  // namespace paceline
