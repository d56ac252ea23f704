// paceline explain allreduce --ranks N --bytes SIZE [--grid XxY] [--ranks-per-host N] [--platform P] [--json]
#pragma once

#include <CLI/CLI.hpp>

namespace paceline {

struct Catalog;  // train/catalog.h

void add_explain_command(CLI::App& app, const Catalog& catalog);

}  // namespace paceline
