// paceline train RECIPE [--set k=v]... [--out DIR] [--resume]
#pragma once

#include <CLI/CLI.hpp>

#include "paceline/core/error.h"

namespace paceline {

void add_train_command(CLI::App& app, ExitCode& result);

}  // namespace paceline
