// What the process must be told before its libraries are loaded: how threads wait, and how memory is kept.
#pragma once

namespace paceline {

// Restarts the program once (0.2 s) with these settings in its environment, because libgomp and glibc read them only
// when they are loaded. Call it first in main, before any thread. Each is left alone when the user has set it.
//
// - GOMP_SPINCOUNT: libgomp's threads spin for milliseconds at the end of every parallel loop. When another process
// wants
//   the same cores, the spinning takes the time that the awaited thread needs, and a step takes several times as long.
//   A short spin, then sleep.
// - GLIBC_TUNABLES: glibc gives large blocks back to the kernel when they are freed and asks for them again, zeroed
// page by
//   page, in the next step. Kept instead, and backed by huge pages, a training step on the CPU takes 15 to 20 % less
//   time.
//
// docs/performance.md has the measurements. Without /proc nothing happens: the program is right all the same.
void tune_process(char** argv);

}  // namespace paceline
