// paceline recipe plot: rate, momentum and batch of a recipe over its epochs, as an SVG and as a table of phases.
#pragma once

#include <CLI/CLI.hpp>

namespace paceline {

void add_recipe_plot_command(CLI::App& recipe);

}  // namespace paceline
