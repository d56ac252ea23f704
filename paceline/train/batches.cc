#include "paceline/train/batches.h"

#include <c10/core/DeviceGuard.h>

#include "paceline/core/check.h"
#include "paceline/kernels/device_memory.h"
#include "paceline/train/copied_batches.h"
#include "paceline/train/loaded_batches.h"
#include "paceline/train/resident_batches.h"

namespace paceline {

std::unique_ptr<Batches> make_batches(BatchSource source, torch::Device device, ImageFormat format,
                                      const std::string& resident) {
  if (device.is_cpu()) return std::make_unique<LoadedBatches>(std::move(source));
  const c10::DeviceGuard guard(device);
  if (is_kept_resident(resident, resident_bytes(*source.dataset), free_device_bytes()))
    return std::make_unique<ResidentBatches>(std::move(source), device, format);
  return std::make_unique<CopiedBatches>(std::move(source), device, format);
}

uint64_t resident_bytes(const Dataset& dataset) {
  return dataset.size() * (dataset.shape().elements() + sizeof(int64_t));
}

bool is_kept_resident(const std::string& resident, uint64_t set_bytes, uint64_t free_bytes) {
  if (resident == "never") return false;
  if (resident == "auto") return set_bytes <= free_bytes / 4;
  CHECK_EQ(resident, "always");
  if (set_bytes <= free_bytes) return true;
  constexpr double kMiB = 1024 * 1024;
  throw RecipeError(
      fmt::format("data.resident: the data set needs {:.1f} MiB of the GPU's memory, {:.1f} MiB are free; use \"auto\"",
                  static_cast<double>(set_bytes) / kMiB, static_cast<double>(free_bytes) / kMiB));
}

}  // namespace paceline
