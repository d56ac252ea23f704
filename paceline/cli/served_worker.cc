#include "paceline/cli/served_worker.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "paceline/core/usable_cores.h"
#include "paceline/rendezvous/world_settings.h"

namespace paceline {
namespace {

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

int threads_of_a_worker(const Recipe& recipe, int workers_here) {
  if (recipe.train.threads > 0) return static_cast<int>(recipe.train.threads);
  const UsableCores mine = usable_cores();
  return threads_of(mine, std::vector(static_cast<size_t>(workers_here), mine));
}

}  // namespace

std::optional<int> own_worker_number() {
  const char* text = std::getenv(kWorkerVariable);
  return text != nullptr ? std::optional<int>(std::atoi(text)) : std::nullopt;
}

std::optional<WorkerSeat> worker_seat(const Environment& environment) {
  if (const auto number = environment(kWorkerVariable)) {
    const int worker = std::atoi(number->c_str());
    return WorkerSeat{.worker = worker, .place = worker};
  }
  const Identity identity = find_identity(environment);
  if (identity.rank == 0) return std::nullopt;
  return WorkerSeat{.worker = identity.rank, .place = identity.local_rank};
}

WorkerLoopOptions worker_loop_options(const Recipe& recipe, const ServedTrainOptions& options, const WorkerSeat& seat,
                                      const Environment& environment) {
  const auto servers = environment(kServersVariable), here = environment(kWorkersHereVariable);
  return {.worker = seat.worker,
          .workers = options.workers,
          .place = seat.place,
          .servers = servers ? split(*servers) : options.servers,
          .checkpoint = environment(kCheckpointVariable).value_or(""),
          .security = options.access.security(ServerAccess::Role::client),
          .patience_ms = wait_timeout_ms(0, environment),
          .run = environment(kRunVariable).value_or(options.access.run(recipe)),
          .threads = threads_of_a_worker(recipe, here ? std::max(1, std::atoi(here->c_str())) : options.workers_here),
          .stop = options.stop,
          .log = options.log,
          .catalog = options.catalog};
}

void work_on_servers(const Recipe& recipe, const ServedTrainOptions& options, const WorkerSeat& seat) {
  const WorkerLoopOptions own = worker_loop_options(recipe, options, seat, process_environment());
  Recipe with_servers = recipe;  // those that are there, as for the chief
  with_servers.sync.servers = static_cast<int64_t>(own.servers.size());
  WorkerLoop(with_servers, own).run();
}

}  // namespace paceline
