// paceline bench allreduce [--engine E] [--ranks N] [--bytes LIST] [--algorithm LIST] [--peers openmpi,gloo]
//     [--trials N] [--json FILE]
#pragma once

#include <CLI/CLI.hpp>

namespace paceline {

// `exit_code` gets that of the ranks, when this process started them.
void add_bench_command(CLI::App& app, int& exit_code);

}  // namespace paceline
