// RunState from the text of a checkpoint's state.json. Without libtorch.
#pragma once

#include <string>

#include "paceline/train/run_state.h"

namespace paceline {

// `file` is for messages. Throws DataError for what no writer has written: a missing key, a value of another kind, a
// number that can be of no run (a negative count, an accuracy above 1).
RunState parse_run_state(const std::string& text, const std::string& file);

}  // namespace paceline
