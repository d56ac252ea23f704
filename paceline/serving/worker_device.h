// Which CUDA device a worker computes on. Pure.
#pragma once

#include "paceline/core/check.h"

namespace paceline {

// The workers of a machine take its visible devices in turn, and share them where there are too few. `place`: a
// worker's among those of its machine. REQUIRES: place >= 0, devices > 0
inline int device_of_worker(int place, int devices) {
  CHECK_GE(place, 0);
  CHECK_GT(devices, 0);
  return place % devices;
}

}  // namespace paceline
