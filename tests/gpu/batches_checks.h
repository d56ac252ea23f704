// Batches on a GPU beside the CPU's, and how many images a second come out.
#pragma once

namespace paceline {

// Prints rows; false when one of them failed.
bool check_batches();

// Prints the speed of the kernel, of resident batches, and of copied ones with 8 loader threads.
void time_batches();

}  // namespace paceline
