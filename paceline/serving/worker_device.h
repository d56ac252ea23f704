// Which device a worker of a parameter server computes on.
#pragma once

#include <torch/types.h>

#include "paceline/core/check.h"
#include "paceline/core/recipe.h"

namespace paceline {

// The workers of a machine take its visible devices in turn, and share them where there are too few. `place`: a
// worker's among those of its machine. Pure. REQUIRES: place >= 0, devices > 0
inline int device_of_worker(int place, int devices) {
  CHECK_GE(place, 0);
  CHECK_GT(devices, 0);
  return place % devices;
}

// The CPU for a recipe of the CPU; else the worker's own of so many GPUs. `kind`: a device of the recipe's kind. Pure.
inline torch::Device worker_device(torch::Device kind, int place, int gpus) {
  if (!kind.is_cuda()) return kind;
  return {torch::kCUDA, static_cast<c10::DeviceIndex>(device_of_worker(place, gpus))};
}

// The worker's device on this machine; a GPU becomes the current one of this thread. Throws RecipeError where the build
// or the machine has no GPU and the recipe wants one.
torch::Device open_worker_device(const Recipe& recipe, int place);

}  // namespace paceline
