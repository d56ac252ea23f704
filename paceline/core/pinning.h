// Which cores a process may use. Ranks of one host that each keep to their own do not push each other around.
#pragma once

#include <vector>

namespace paceline {

std::vector<int> allowed_cores();  // of this thread, in increasing order

// Cores of the `part`-th of `parts` processes that share `cores`: as many for each, rounded down, neighbours together.
// Nothing when there are fewer cores than parts.
std::vector<int> cores_of_part(const std::vector<int>& cores, int part, int parts);

// From now on this thread, and threads that it starts, run on these only. Does nothing for none.
void pin_to(const std::vector<int>& cores);

}  // namespace paceline
