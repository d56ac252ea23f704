// `paceline serve`: one server of a parameter server.
#pragma once

#include <CLI/CLI.hpp>

#include "paceline/core/error.h"
#include "paceline/train/catalog.h"

namespace paceline {

void add_serve_command(CLI::App& app, const Catalog& catalog, ExitCode& result);

}  // namespace paceline
