// paceline explain step RECIPE --ranks N: which gradients leave when, how, and what that hides.
#pragma once

#include <CLI/CLI.hpp>

namespace paceline {

struct Catalog;  // train/catalog.h

void add_explain_step_command(CLI::App& explain, const Catalog& catalog);

}  // namespace paceline
