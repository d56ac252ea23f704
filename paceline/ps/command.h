// Command: what every shard of a server does next. The coordinator numbers its decisions; all shards carry out the same
// commands in the same order, so they have the same version at the same number. That is all the agreement they need.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "paceline/sync/policy.h"

namespace paceline {

struct Command {
  uint64_t index = 0;     // from 1, without gaps
  uint64_t sequence = 0;  // which push of the worker the decision is about; release: which one comes next (0: none)
  Decision decision;

  bool operator==(const Command&) const = default;
};

// For the wire and for files: little-endian, of fixed length.
inline constexpr size_t kCommandBytes = 64;
std::array<std::byte, kCommandBytes> to_bytes(const Command& command);
Command command_from(std::span<const std::byte, kCommandBytes> bytes);  // throws PeerError for what cannot be one

}  // namespace paceline
