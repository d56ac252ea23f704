// Diagnosis: from what every rank of a group is doing to an error that says who is missing or differs. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "paceline/comm/operation.h"

namespace paceline {

struct RankStatus {
  enum class State : uint8_t {
    unknown,  // nothing was heard of it
    idle,     // `operation` was its last one
    busy,     // in `operation`
    ended,    // its program left the group in order
    dead      // its process is gone
  };
  int rank = 0;  // within the group
  State state = State::unknown;
  Operation operation;
  int64_t for_ms = 0;  // how long it has been busy or idle
  std::string detail;  // of a dead one, what is known: "killed by signal 9"
};

// Why the operation of `mine` (which is busy) cannot succeed: a rank died or left, or is in the same place of the order
// with another operation; or, once it has lasted `timeout_ms`, who has not arrived and what they do instead.
// Nothing while there is hope.
std::optional<std::string> diagnose(const std::string& group, const RankStatus& mine, std::span<const RankStatus> all,
                                    int64_t timeout_ms);

}  // namespace paceline
