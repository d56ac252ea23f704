// The side of `paceline train` that is a worker of a run on a parameter server: a process that the chief has started,
// or a rank of a launcher.
#pragma once

#include <optional>

#include "paceline/cli/served_train.h"
#include "paceline/rendezvous/identity.h"
#include "paceline/serving/worker_loop.h"

namespace paceline {

// What the chief tells the workers that it starts.
inline constexpr const char* kWorkerVariable = "PACELINE_WORKER";
inline constexpr const char* kWorkersHereVariable = "PACELINE_WORKERS_HERE";
inline constexpr const char* kServersVariable = "PACELINE_SERVERS";
inline constexpr const char* kCheckpointVariable = "PACELINE_WORKER_CHECKPOINT";
inline constexpr const char* kRunVariable = "PACELINE_SERVER_RUN";

// Whether this process was started as a worker of such a run, and which.
std::optional<int> own_worker_number();

struct WorkerSeat {
  int worker = 0;  // of the run
  int place = 0;   // among the workers of this machine, which take its GPUs in turn
};

// Of a worker that a chief has started (all of its workers are on its machine), and of any rank of a launcher but the
// first, which is the chief. Other processes have none.
std::optional<WorkerSeat> worker_seat(const Environment& environment);

WorkerLoopOptions worker_loop_options(const Recipe& recipe, const ServedTrainOptions& options, const WorkerSeat& seat,
                                      const Environment& environment);

// Works until the run is over.
void work_on_servers(const Recipe& recipe, const ServedTrainOptions& options, const WorkerSeat& seat);

}  // namespace paceline
