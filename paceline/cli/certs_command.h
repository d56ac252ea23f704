// `paceline certs`: certificates for the processes of a parameter server.
#pragma once

#include <CLI/CLI.hpp>

namespace paceline {

void add_certs_command(CLI::App& app);

}  // namespace paceline
