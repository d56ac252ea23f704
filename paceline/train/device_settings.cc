#include "paceline/train/device_settings.h"

#include <ATen/Context.h>

#include <cstdlib>

namespace paceline {

void settle_device(const Recipe& recipe, torch::Device device) {
  if (device.is_cpu()) return;
  at::Context& context = at::globalContext();
  const bool exact = recipe.train.deterministic;
  if (exact) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);  // several streams must not share one
  context.setDeterministicCuDNN(exact);
  context.setBenchmarkCuDNN(!exact);
  // A layer that has no such algorithm (some poolings) is no reason to refuse the run; libtorch then says which.
  context.setDeterministicAlgorithms(exact, /*warn_only=*/true);
  // The memory that a tensor is made in is written before it is read: nobody needs to fill it first.
  context.setDeterministicFillUninitializedMemory(false);
}

}  // namespace paceline
