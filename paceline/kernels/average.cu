#include "paceline/kernels/average.h"

#include "paceline/kernels/device_update.h"

namespace paceline {
namespace {

// Gradients take no part: what has none in this step is averaged as well.
__global__ void __launch_bounds__(kDeviceThreads)
    average_tensors(const __grid_constant__ DeviceTable table, float keep, float take) {
  if (is_skipped(table)) return;
  const DeviceChunk chunk = table.chunks[blockIdx.x];
  const DeviceTensor tensor = table.tensors[chunk.tensor];
  const int64_t begin = int64_t{chunk.index} * kDeviceChunkElements;
  const int count = elements_of(tensor, begin);
  const float* const __restrict__ weights = global(tensor.weights) + begin;
  float* const __restrict__ average = global(tensor.states[0]) + begin;

  const int fours = tensor.aligned ? count / 4 : 0;
  for (int four = static_cast<int>(threadIdx.x); four < fours; four += kDeviceThreads) {
    const Four w = load_four<true>(weights + 4 * four);
    Four a = load_four<false>(average + 4 * four);
#pragma unroll
    for (int lane = 0; lane < 4; ++lane) a.of[lane] = keep * a.of[lane] + take * w.of[lane];
    store_state(average + 4 * four, a);
  }
  for (int at = 4 * fours + static_cast<int>(threadIdx.x); at < count; at += kDeviceThreads)
    average[at] = keep * average[at] + take * weights[at];
}

}  // namespace

void average_update_on_device(const DeviceTable& table, double keep) {
  if (table.chunk_count == 0) return;
  average_tensors<<<table.chunk_count, kDeviceThreads, 0, table.stream>>>(table, static_cast<float>(keep),
                                                                          static_cast<float>(1 - keep));
  check_launch("average");
}

}  // namespace paceline
