#include "paceline/serving/worker_device.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/cuda.h>

#include "paceline/comm/engine_local.h"
#include "paceline/train/assemble.h"

namespace paceline {

torch::Device open_worker_device(const Recipe& recipe, int place) {
  const auto alone = make_local_group();
  const torch::Device own =
      worker_device(open_device(recipe, *alone), place, static_cast<int>(torch::cuda::device_count()));
  if (own.is_cuda()) c10::impl::VirtualGuardImpl(own.type()).setDevice(own);
  return own;
}

}  // namespace paceline
