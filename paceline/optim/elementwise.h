// The frame of every update that looks at each element alone: the CUDA device's share in one launch, the CPU's in one
// parallel loop over all chunks, the rest tensor by tensor with torch's own operations.
#pragma once

#include <functional>
#include <vector>

#include "paceline/optim/chunks.h"
#include "paceline/optim/device_parameters.h"
#include "paceline/optim/optimizer.h"

namespace paceline {

// Each is given the step's coefficients with the loss scale taken into gradient_scale; on the device the kernel does.
struct ElementwiseUpdate {
  std::function<void(const DeviceTable&)> launch;
  std::function<void(const Chunk&, const StepCoefficients&)> of_chunk;
  std::function<void(const ChunkTable::Whole&, const StepCoefficients&)> of_tensor;
  std::function<void()> count = [] {};  // on the host, before the other two, when the step is known to be made
};

// Nothing is updated in a step that overflowed.
void update_elementwise(const std::vector<Parameter>& parameters, DeviceParameters& on_device,
                        const StepCoefficients& coefficients, const ElementwiseUpdate& update);

}  // namespace paceline
