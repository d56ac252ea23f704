// paceline launch -n N [--hosts a:4,b:4] [--rsh CMD] [--engine E] -- PROGRAM ARGUMENTS...
#pragma once

#include <CLI/CLI.hpp>

namespace paceline {

// `exit_code` becomes the run's exit code when all ranks have ended: any number that a rank may exit with.
void add_launch_command(CLI::App& app, int& exit_code);

}  // namespace paceline
