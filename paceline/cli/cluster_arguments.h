// The cluster that `paceline explain` predicts for, as it is described on the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "paceline/collectives/cost_model.h"

namespace paceline {

struct ClusterArguments {
  int ranks = 0;
  int ranks_per_host = 0;
  std::string platform = "abci";
  std::string link, latency;  // of the network between hosts; empty: the platform's

  void add_options(CLI::App& command);
  // Throws UsageError: an unknown platform, a link between hosts where there is one host, one host for too many ranks.
  Cluster cluster() const;
};

}  // namespace paceline
