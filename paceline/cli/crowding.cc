#include "paceline/cli/crowding.h"

#include <fmt/format.h>

#include "paceline/core/error.h"
#include "paceline/core/usable_cores.h"

namespace paceline {
namespace {

std::string cores_text(int cores) { return fmt::format("{} core{}", cores, cores == 1 ? "" : "s"); }

}  // namespace

void require_possible(const std::string& what, int64_t processes) {
  if (processes > kMostProcesses)
    throw UsageError(
        fmt::format("{}: {} processes on one machine are too many (at most {}); 'paceline launch --hosts' "
                    "uses several machines",
                    what, processes, kMostProcesses));
}

void warn_of_crowding(const std::string& what, int64_t processes) {
  const int cores = cores_of(usable_cores());
  if (processes > cores)
    fmt::print(stderr,
               "paceline: warning: {}: {} processes share {}, so they take turns, and every one needs memory of its "
               "own\n",
               what, processes, cores_text(cores));
}

void check_threads(const Recipe& recipe) {
  const int cores = cores_of(usable_cores());
  if (recipe.train.device == "cpu" && recipe.train.threads > cores)
    fmt::print(stderr, "paceline: warning: {}: {} threads share {}; 0 takes one per core\n",
               recipe.where("train.threads"), recipe.train.threads, cores_text(cores));
}

}  // namespace paceline
