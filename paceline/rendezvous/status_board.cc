#include "paceline/rendezvous/status_board.h"

#include <algorithm>

namespace paceline {

void StatusBoard::hear(Entry& entry, const RankStatus& status, int64_t now_ms) {
  entry = {.status = status, .heard_ms = now_ms, .asked_ms = {}, .unanswered_from_ms = {}};
}

std::vector<int> StatusBoard::report(int rank, const std::string& group, const std::vector<int>& members,
                                     const RankStatus& mine, int64_t now_ms) {
  Board& board = boards_[group];
  board.members = members;
  hear(board.entries[rank], mine, now_ms);
  if (board.waiting.empty()) board.due_ms = now_ms + kFreshMs;
  if (std::ranges::find(board.waiting, rank) == board.waiting.end()) board.waiting.push_back(rank);

  const auto recent = [&](std::optional<int64_t> at_ms) { return at_ms && now_ms - *at_ms < kFreshMs; };
  std::vector<int> to_ask;
  for (const int member : members) {
    Entry& entry = board.entries[member];
    if (member == rank || roster_.fate(member) || recent(entry.heard_ms) || recent(entry.asked_ms)) continue;
    entry.asked_ms = now_ms;
    if (!entry.unanswered_from_ms) entry.unanswered_from_ms = now_ms;
    to_ask.push_back(member);
  }
  return to_ask;
}

void StatusBoard::answer(int rank, const std::string& group, const RankStatus& mine, int64_t now_ms) {
  hear(boards_[group].entries[rank], mine, now_ms);
}

bool StatusBoard::complete(const Board& board) const {
  return std::ranges::none_of(board.members, [&](int member) {
    const auto entry = board.entries.find(member);
    return entry != board.entries.end() && entry->second.asked_ms && !roster_.fate(member);
  });
}

RankStatus StatusBoard::status_of(const Board& board, int group_rank, int64_t now_ms) const {
  const int member = board.members[group_rank];
  RankStatus status;
  if (const auto found = board.entries.find(member); found != board.entries.end()) {
    const Entry& entry = found->second;
    if (entry.heard_ms) {
      const int64_t age_ms = now_ms - *entry.heard_ms;
      status = entry.status;
      status.for_ms += age_ms;
      if (status.chore != Chore::none)
        status.chore_ms += age_ms;
      else
        status.since_work_ms += age_ms;
    }
    status.silent_ms = entry.unanswered_from_ms ? now_ms - *entry.unanswered_from_ms : 0;
  }
  if (const auto fate = roster_.fate(member)) {  // what it did last is still worth knowing
    status.state = fate->state;
    status.detail = fate->detail;
  }
  status.rank = group_rank;
  return status;
}

std::vector<StatusBoard::Statement> StatusBoard::due(int64_t now_ms) {
  std::vector<Statement> statements;
  for (auto& [group, board] : boards_) {
    if (board.waiting.empty() || (now_ms < board.due_ms && !complete(board))) continue;
    Statement statement{std::move(board.waiting), {.kind = StoreNews::Kind::statuses, .group = group}};
    board.waiting.clear();
    for (size_t rank = 0; rank < board.members.size(); ++rank)
      statement.news.statuses.push_back(status_of(board, static_cast<int>(rank), now_ms));
    statements.push_back(std::move(statement));
  }
  return statements;
}

std::optional<int64_t> StatusBoard::next_due_ms() const {
  std::optional<int64_t> next;
  for (const auto& [group, board] : boards_) {
    if (!board.waiting.empty()) next = std::min(next.value_or(board.due_ms), board.due_ms);
  }
  return next;
}

}  // namespace paceline
