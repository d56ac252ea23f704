// paceline train RECIPE [--set k=v]... [--ranks N] [--engine E] [--out DIR] [--resume] [--trace FILE]
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "paceline/core/error.h"
#include "paceline/train/catalog.h"

namespace paceline {

// `program`: how the program was called (argv[0]). `exit_code`: of ranks that were started.
void add_train_command(CLI::App& app, const std::string& program, const Catalog& catalog, ExitCode& result,
                       int& exit_code);

}  // namespace paceline
