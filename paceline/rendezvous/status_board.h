// StatusBoard: what the ranks of stalled groups say they are doing; whom to ask, and whom to tell when. Bookkeeping
// only: no I/O, no clock.
//
// A stalled rank reports again and again. However many do, a rank is asked for the same group at most once in kFreshMs,
// and each report is answered once: with a thousand stalled ranks that is some megabytes a second at the server.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/rendezvous/roster.h"

namespace paceline {

class StatusBoard {
 public:
  static constexpr int64_t kFreshMs = 50;  // a status is believed for so long; one that was asked may take as long

  // `roster` knows who is dead or has ended; it must stay.
  explicit StatusBoard(const Roster& roster) : roster_(roster) {}

  // From `rank` (of the world), which is stalled. Returns who is to be asked. REQUIRES: the members are in the roster.
  std::vector<int> report(int rank, const std::string& group, const std::vector<int>& members, const RankStatus& mine,
                          int64_t now_ms);
  // From one that was asked, or leaves.
  void answer(int rank, const std::string& group, const RankStatus& mine, int64_t now_ms);

  struct Statement {
    std::vector<int> to;  // world ranks
    StoreNews news;
  };
  // What the reporters are to be told now: all who were asked have answered, or took too long.
  std::vector<Statement> due(int64_t now_ms);
  std::optional<int64_t> next_due_ms() const;

 private:
  struct Entry {
    RankStatus status;
    std::optional<int64_t> heard_ms;
    std::optional<int64_t> asked_ms;            // and not heard of since
    std::optional<int64_t> unanswered_from_ms;  // the first time that it was asked since then
  };
  struct Board {
    std::vector<int> members;  // world ranks
    std::map<int, Entry> entries;
    std::vector<int> waiting;  // reporters, not told yet
    int64_t due_ms = 0;        // for them
  };

  void hear(Entry& entry, const RankStatus& status, int64_t now_ms);
  bool complete(const Board& board) const;  // nothing more is to be waited for
  RankStatus status_of(const Board& board, int group_rank, int64_t now_ms) const;

  const Roster& roster_;
  std::map<std::string, Board> boards_;
};

}  // namespace paceline
