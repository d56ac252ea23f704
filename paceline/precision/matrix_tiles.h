// Matrix tiles (AMX) that a processor announces but does not describe.
//
// oneDNN computes libtorch's 16-bit products on the CPU, with tiles where the processor has them. Some virtual machines
// announce tiles and leave out the CPUID leaf that says how large they are. oneDNN, as libtorch 2.11 has it, takes that
// for tiles of no rows, and the program dies of an illegal instruction in its first product.
#pragma once

#include <cstdint>

namespace paceline {

// What CPUID says.
struct TileLeaves {
  uint32_t last_leaf = 0;
  uint32_t features = 0;  // leaf 7, EDX
  uint32_t palettes = 0;  // leaf 1D, EAX; nothing where it is beyond the last leaf
};

bool tiles_are_undescribed(const TileLeaves& leaves);

// Has oneDNN do without such tiles (ONEDNN_MAX_CPU_ISA, unless somebody has set it). oneDNN looks at its first use, so
// this goes before; programs that contain Autocast do it when they are loaded. Returns whether tiles are undescribed.
bool avoid_undescribed_tiles();

}  // namespace paceline
