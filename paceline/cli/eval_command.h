// paceline eval RUN_DIR [--data ROOT] [--step N] [--json]
#pragma once

#include <CLI/CLI.hpp>

namespace paceline {

void add_eval_command(CLI::App& app);

}  // namespace paceline
