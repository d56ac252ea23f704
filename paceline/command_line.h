// The command line of Paceline, for programs with models, data sets, optimizers or codecs of their own:
//
//   int main(int argc, char** argv) {
//     paceline::Catalog catalog;
//     catalog.models.add("mine", {.summary = "my model", .smallest_input = 28, .make = make_mine});
//     return paceline::command_line(argc, argv, catalog);
//   }
//
// Such a program has every command of `paceline`, and its recipes may name what the catalog holds: `mine train
// mine.toml
// --ranks 2 --resume`, `mine eval runs/mine`, `mine explain step mine.toml`, with the same errors and exit codes.
// Ranks, workers and servers that it starts are processes of the same program. CMake target: Paceline::command_line.
#pragma once

#include "paceline/train/catalog.h"

namespace paceline {

// Returns the exit code of the process (docs/errors.md). `catalog` must outlive the call.
int command_line(int argc, char** argv, const Catalog& catalog);

}  // namespace paceline
