// Chore: long work that a rank does alone, outside of every operation, while the other ranks may wait for it.
#pragma once

#include <cstdint>

namespace paceline {

enum class Chore : uint8_t { none, checkpoint, data, other };
constexpr Chore last_of(Chore) { return Chore::other; }

constexpr const char* to_text(Chore chore) {
  switch (chore) {
    case Chore::none:
      return "does nothing alone";
    case Chore::checkpoint:
      return "writes or reads a checkpoint";
    case Chore::data:
      return "prepares its data";
    case Chore::other:
      break;
  }
  return "works alone";
}

// A rank that says that it is at work is waited for until that has lasted this many time-outs.
inline constexpr int64_t kChoreTimeouts = 30;
inline constexpr int64_t kLongAgoMs = 1'000'000'000'000;

}  // namespace paceline
