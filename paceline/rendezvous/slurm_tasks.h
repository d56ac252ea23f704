// The commonest mistake with Slurm: a batch script that starts the program without srun.
#pragma once

#include <optional>

#include "paceline/rendezvous/identity.h"

namespace paceline {

// The tasks of the Slurm job that this process is in, where they are several and nothing has started it as one of them.
std::optional<int> slurm_tasks_left_out(const Environment& environment);

}  // namespace paceline
