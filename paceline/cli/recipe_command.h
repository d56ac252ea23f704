// paceline recipe keys | show: what recipes may hold, and what one holds with every default and --set in place.
#pragma once

#include <CLI/CLI.hpp>

namespace paceline {

void add_recipe_command(CLI::App& app);

}  // namespace paceline
