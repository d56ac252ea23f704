#include "paceline/optim/elementwise.h"

namespace paceline {

void update_elementwise(const std::vector<Parameter>& parameters, DeviceParameters& on_device,
                        const StepCoefficients& coefficients, const ElementwiseUpdate& update) {
  const torch::NoGradGuard no_grad;
  on_device.update(parameters, coefficients, update.launch);
  if (on_device.has_all()) return;

  const auto unscaled = read_scaling(coefficients);
  if (!unscaled) return;
  update.count();
  const ChunkTable table(parameters);
  table.for_each([&](const Chunk& chunk) { update.of_chunk(chunk, *unscaled); });
  for (const ChunkTable::Whole& whole : table.others())
    if (!on_device.contains(whole.parameter)) update.of_tensor(whole, *unscaled);
  write_halves(parameters);
}

}  // namespace paceline
