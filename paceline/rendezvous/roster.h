// Roster: which ranks of a run are here, have left, or are dead, and what the others are to be told of it. Bookkeeping
// only: no I/O, no clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/rendezvous/store_client.h"

namespace paceline {

class Roster {
 public:
  // When a rank's connection breaks, whoever started it usually knows the cause a moment later: wait this long for it.
  static constexpr int64_t kWaitForCauseMs = 300;

  explicit Roster(int ranks) : members_(ranks) {}

  int ranks() const { return static_cast<int>(members_.size()); }
  bool has(int rank) const { return rank >= 0 && rank < ranks(); }

  // Why `rank` may not be watched (now); nothing when it may. REQUIRES (all of these): has(rank)
  std::optional<std::string> objection(int rank) const;
  void watch(int rank, const std::string& from);

  StoreNews farewell(int rank);
  // Its connection broke; `how` is what is told of that when nobody knows more.
  void lose(int rank, int64_t now_ms, std::string_view how);
  // Nothing when its death is known already.
  std::optional<StoreNews> declare_dead(int rank, const std::string& how);
  // Of lost ranks for which nobody has told the cause in time.
  std::vector<StoreNews> overdue(int64_t now_ms);
  std::optional<int64_t> next_overdue_ms() const;

  // For one who comes late.
  std::vector<StoreNews> history() const;
  // dead or ended; nothing of others.
  std::optional<RankStatus> fate(int rank) const;

 private:
  enum class Life : uint8_t { expected, watched, lost, dead, ended };
  struct Member {
    Life life = Life::expected;
    std::string from;           // its address
    std::string how;            // it died or was lost
    int64_t overdue_at_ms = 0;  // of a lost one
  };
  StoreNews bury(int rank, const std::string& how);

  std::vector<Member> members_;
};

}  // namespace paceline
