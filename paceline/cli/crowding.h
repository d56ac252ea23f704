// What is asked of this machine beside what it has: a warning, or a refusal where no machine would do.
#pragma once

#include <string>

#include "paceline/core/recipe.h"

namespace paceline {

inline constexpr int kMostProcesses = 1024;  // of a run on one machine

// `what` says which processes: "--ranks 64". Throws UsageError for more than kMostProcesses.
void require_possible(const std::string& what, int64_t processes);

// Warns on standard error when processes that compute are more than the cores that this process may use.
void warn_of_crowding(const std::string& what, int64_t processes);

// Warns when train.threads is beyond those cores.
void check_threads(const Recipe& recipe);

}  // namespace paceline
