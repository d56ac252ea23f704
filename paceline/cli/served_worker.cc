#include "paceline/cli/served_worker.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "paceline/core/usable_cores.h"
#include "paceline/rendezvous/world_settings.h"
#include "paceline/serving/worker_loop.h"

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

void work_on_servers(const Recipe& recipe, const ServedTrainOptions& options, int worker, int place) {
  const char* servers = std::getenv(kServersVariable);
  const char* run = std::getenv(kRunVariable);
  const char* checkpoint = std::getenv(kCheckpointVariable);
  const char* here = std::getenv(kWorkersHereVariable);
  const std::vector<std::string> addresses = servers != nullptr ? split(servers) : options.servers;
  Recipe with_servers = recipe;  // those that are there, as for the chief
  with_servers.sync.servers = static_cast<int64_t>(addresses.size());
  WorkerLoop(with_servers, {.worker = worker,
                            .workers = options.workers,
                            .place = place,
                            .servers = addresses,
                            .checkpoint = checkpoint != nullptr ? checkpoint : "",
                            .security = options.access.security(ServerAccess::Role::client),
                            .patience_ms = wait_timeout_ms(0, process_environment()),
                            .run = run != nullptr ? run : options.access.run(recipe),
                            .threads = threads_of_a_worker(
                                recipe, here != nullptr ? std::max(1, std::atoi(here)) : options.workers_here),
                            .stop = options.stop,
                            .log = options.log})
      .run();
}

}  // namespace paceline
