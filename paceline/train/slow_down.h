// For experiments with ranks or workers of different speed: sync.slowdown.
#pragma once

#include <chrono>
#include <thread>

#include "paceline/core/recipe.h"

namespace paceline {

// Sleeps as long as if what took `computed_s` had taken sync.slowdown times as long on this rank or worker. Returns the
// seconds that it slept.
inline double slow_down(const Recipe& recipe, int member, double computed_s) {
  if (static_cast<size_t>(member) >= recipe.sync.slowdown.size()) return 0;
  const double seconds = (recipe.sync.slowdown[static_cast<size_t>(member)] - 1) * computed_s;
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  return seconds;
}

}  // namespace paceline
