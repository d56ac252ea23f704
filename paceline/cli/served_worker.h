// The side of `paceline train` that is a worker of a run on a parameter server: a process that the chief has started,
// or a rank of a launcher.
#pragma once

#include <optional>

#include "paceline/cli/served_train.h"

namespace paceline {

// What the chief tells the workers that it starts.
inline constexpr const char* kWorkerVariable = "PACELINE_WORKER";
inline constexpr const char* kWorkersHereVariable = "PACELINE_WORKERS_HERE";
inline constexpr const char* kServersVariable = "PACELINE_SERVERS";
inline constexpr const char* kCheckpointVariable = "PACELINE_WORKER_CHECKPOINT";
inline constexpr const char* kRunVariable = "PACELINE_SERVER_RUN";

// Whether this process was started as a worker of such a run, and which.
std::optional<int> own_worker_number();

// Works until the run is over. `place`: among the workers of this machine.
void work_on_servers(const Recipe& recipe, const ServedTrainOptions& options, int worker, int place);

}  // namespace paceline
