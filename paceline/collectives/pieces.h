// Pieces: a large message goes in several, so that one can be added while the next one travels.
#pragma once

#include <cstddef>

namespace paceline {

inline constexpr int kMostPieces = 4;

// The same at both ends, which know the same size. Small messages go whole: each piece costs a message.
constexpr int pieces_of(size_t bytes) {
  if (bytes < (512u << 10)) return 1;
  return bytes < (2u << 20) ? 2 : kMostPieces;
}

}  // namespace paceline
