// paceline profile [--engine E] [--ranks N] [--hosts a:4,b:4] [--rsh CMD] [--force]
#pragma once

#include <CLI/CLI.hpp>

namespace paceline {

// `exit_code` gets that of the ranks, when this process started them.
void add_profile_command(CLI::App& app, int& exit_code);

}  // namespace paceline
