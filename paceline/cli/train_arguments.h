// What the command line of `paceline train` says, and which options do not go with which way of training: an option
// without effect is refused, as a key is.
#pragma once

#include <string>
#include <vector>

#include "paceline/cli/server_access.h"
#include "paceline/core/recipe.h"

namespace paceline {

struct Catalog;  // train/catalog.h

struct TrainArguments {
  const Catalog& catalog;
  std::string program;  // as it was called, for commands that people can copy
  std::string recipe;
  std::vector<std::string> overrides;
  std::string out;
  int ranks = 0;
  std::string engine;
  std::string trace;
  std::vector<std::string> servers;
  bool restart = false;
  bool no_restart = false;
  ServerAccess access;
  bool resume = false;
  bool json = false;
  bool quiet = false;
};

// Both throw UsageError with the option and what to write instead.

// For a run without servers, which was perhaps meant for servers and would train alone.
void refuse_options_of_servers(const TrainArguments& arguments, const Recipe& recipe);

// For a run on servers: options of ranks, and where the run starts its servers itself, options of servers that run
// already. Not for workers that the run has started.
void refuse_options_without_effect_on_servers(const TrainArguments& arguments, const Recipe& recipe);

}  // namespace paceline
