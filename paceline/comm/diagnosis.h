// Diagnosis: turns what every rank of a group is doing into an error that names the missing or deviating ranks. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "paceline/comm/operation.h"
#include "paceline/comm/status_cell.h"

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
  Chore chore = Chore::none;
  int64_t chore_ms = 0;                // how long it has been at that
  int64_t since_work_ms = kLongAgoMs;  // since its last chore, or that of a rank it waited for; 0: it is at one
  int64_t silent_ms = 0;               // for how long its process has not shown itself, or not answered

  // Sets the fields of `chore` and later ones but silent_ms.
  void set_work(const StatusCell::Life& life, int64_t now_ns);
};

// Why a wait may last longer than the time-out: a rank that it waits for is at work, or has been.
struct Excuse {
  int64_t since_work_ms = 0;
  bool direct = false;  // that rank itself is at work now
};

// What excuses a rank for being late, if anything does. Pure.
std::optional<Excuse> find_excuse(const RankStatus& mine, std::span<const RankStatus> all, int64_t timeout_ms);

// Why the operation of `mine` (which is busy) cannot succeed: a rank died or left, or is in the same place of the order
// with another operation; or, once it has lasted `timeout_ms`, which ranks have not arrived and what they do instead,
// and which do not answer. A rank at work is waited for, and for one time-out after that. Nothing while there is hope.
std::optional<std::string> diagnose(const std::string& group, const RankStatus& mine, std::span<const RankStatus> all,
                                    int64_t timeout_ms);

}  // namespace paceline
