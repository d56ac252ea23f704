#include "paceline/kernels/device_memory.h"

#include "paceline/kernels/device_launch.h"

namespace paceline {

size_t free_device_bytes() {
  size_t free_bytes = 0, total_bytes = 0;
  check_device("cudaMemGetInfo", cudaMemGetInfo(&free_bytes, &total_bytes));
  return free_bytes;
}

}  // namespace paceline
