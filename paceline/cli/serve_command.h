// `paceline serve`: one server of a parameter server.
#pragma once

#include <CLI/CLI.hpp>

#include "paceline/core/error.h"

namespace paceline {

void add_serve_command(CLI::App& app, ExitCode& result);

}  // namespace paceline
