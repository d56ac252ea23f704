// paceline train RECIPE [--set k=v]... [--out DIR] [--resume]
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "paceline/core/error.h"

namespace paceline {

// `program`: how the program was called (argv[0]).
void add_train_command(CLI::App& app, const std::string& program, ExitCode& result);

}  // namespace paceline
