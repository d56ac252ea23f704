// Commands that run on several ranks and start them by themselves: the same program with the same arguments, which then
// finds that it is a rank.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/launch/launch.h"

namespace paceline {

// Whether this process was started as a rank: by this command, by `paceline launch`, mpirun, srun or torchrun.
bool is_rank();

// How often `paceline launch --restart` has started this rank before, alone or with all others; nothing without it.
std::optional<int> starts_before();

// Starts this program with its own arguments and `more` as options.ranks ranks, and returns when they have ended, with
// the exit code of launch().
int launch_own_ranks(LaunchOptions options, const std::vector<std::string>& more);

// Throws UsageError when `asked` ranks (0: not said) are not as many as this one's starter started.
void require_ranks(int asked);

}  // namespace paceline
