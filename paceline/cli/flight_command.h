// paceline flight FILE...
#pragma once

#include <CLI/CLI.hpp>

namespace paceline {

void add_flight_command(CLI::App& app);

}  // namespace paceline
