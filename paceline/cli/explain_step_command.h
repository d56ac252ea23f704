// paceline explain step RECIPE --ranks N: which gradients leave when, how, and what that hides.
#pragma once

#include <CLI/CLI.hpp>

namespace paceline {

void add_explain_step_command(CLI::App& explain);

}  // namespace paceline
