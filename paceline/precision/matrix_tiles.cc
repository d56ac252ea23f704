#include "paceline/precision/matrix_tiles.h"

#include <cstdlib>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace paceline {
namespace {

constexpr uint32_t kFeaturesLeaf = 0x7, kTilesLeaf = 0x1d;
constexpr uint32_t kTilesFeature = 1u << 24;

TileLeaves leaves_of_this_processor() {
  TileLeaves leaves;
#if defined(__x86_64__)
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
  leaves.last_leaf = __get_cpuid_max(0, nullptr);
  if (__get_cpuid_count(kFeaturesLeaf, 0, &eax, &ebx, &ecx, &edx)) leaves.features = edx;
  if (__get_cpuid_count(kTilesLeaf, 0, &eax, &ebx, &ecx, &edx)) leaves.palettes = eax;
#endif
  return leaves;
}

}  // namespace

bool tiles_are_undescribed(const TileLeaves& leaves) {
  const bool announced = leaves.last_leaf >= kFeaturesLeaf && (leaves.features & kTilesFeature) != 0;
  const bool described = leaves.last_leaf >= kTilesLeaf && leaves.palettes > 0;
  return announced && !described;
}

bool avoid_undescribed_tiles() {
  const bool undescribed = tiles_are_undescribed(leaves_of_this_processor());
  if (undescribed) ::setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16", /*overwrite=*/0);  // the best one without tiles
  return undescribed;
}

}  // namespace paceline
