// `paceline train` with a policy of a parameter server: the process that people start is the chief; servers and workers
// are processes of the same program, started by it, or elsewhere by people (`paceline serve`).
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "paceline/cli/server_access.h"
#include "paceline/core/log.h"
#include "paceline/core/recipe.h"
#include "paceline/metrics/progress.h"
#include "paceline/train/catalog.h"
#include "paceline/train/run_folder.h"
#include "paceline/train/summary.h"

namespace paceline {

struct ServedTrainOptions {
  std::string recipe_file;
  std::vector<std::string> overrides;
  int workers = 1;                   // of the run
  int workers_here = 1;              // that share this machine's cores
  bool only_worker_0 = false;        // is started here: a launcher has started the others
  std::vector<std::string> servers;  // that run already; empty: they are started here
  // From the newest intact checkpoint, if there is one; with servers that run already: they know how far the run is.
  bool resume = false;
  bool restart_servers = true;  // of those that are started here, the ones that die are started again
  bool restart_workers = false;
  ServerAccess access;
  RunFolder run_folder;
  Log* log = nullptr;
  Progress* progress = nullptr;
  std::stop_token stop;
  Catalog catalog;
};

// As the chief. Throws what ends the run.
Summary train_on_servers(const Recipe& recipe, const ServedTrainOptions& options);

}  // namespace paceline
