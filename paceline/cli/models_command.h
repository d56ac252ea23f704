// paceline models [--classes N] [--json]
#pragma once

#include <CLI/CLI.hpp>

namespace paceline {

void add_models_command(CLI::App& app);

}  // namespace paceline
