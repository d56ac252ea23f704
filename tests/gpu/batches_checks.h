// Batches on a GPU beside the CPU's, and how many images a second come out.
#pragma once

namespace paceline {

// Prints a table; false when anything in it failed.
bool check_batches();

}  // namespace paceline
