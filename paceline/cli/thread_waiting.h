// How libtorch's threads wait for each other.
#pragma once

namespace paceline {

// libgomp's threads spin for milliseconds at the end of every parallel loop. When another process wants the same cores, the
// spinning takes the time that the awaited thread needs: a step then takes up to eight times as long. Spinning briefly
// and then sleeping costs about 2 % on an idle machine. The policy is read when the library is loaded, so this restarts
// the program once (0.2 s) unless the user has chosen one (OMP_WAIT_POLICY, GOMP_SPINCOUNT).
void wait_politely(char** argv);

}  // namespace paceline
