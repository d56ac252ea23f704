// Whole training steps on a GPU: recorded as a graph and not, with overflows, without waiting.
#pragma once

namespace paceline {

bool step_checks();  // prints rows; false: one of them failed

}  // namespace paceline
