// paceline models [--classes N] [--json]
#pragma once

#include <CLI/CLI.hpp>

#include "paceline/train/catalog.h"

namespace paceline {

void add_models_command(CLI::App& app, const Catalog& catalog);

}  // namespace paceline
