// paceline recipe keys | show | plot: what recipes may hold, what one holds with every default and --set in place, and
// what it plans over its epochs (recipe_plot_command.h).
#pragma once

#include <CLI/CLI.hpp>

namespace paceline {

void add_recipe_command(CLI::App& app);

}  // namespace paceline
