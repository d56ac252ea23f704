// paceline eval RUN_DIR [--data ROOT] [--step N] [--json]
#pragma once

#include <CLI/CLI.hpp>

#include "paceline/train/catalog.h"

namespace paceline {

void add_eval_command(CLI::App& app, const Catalog& catalog);

}  // namespace paceline
