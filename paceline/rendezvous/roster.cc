#include "paceline/rendezvous/roster.h"

#include <fmt/format.h>

#include <algorithm>

namespace paceline {

std::optional<std::string> Roster::objection(int rank) const {
  const Member& member = members_[rank];
  switch (member.life) {
    case Life::expected:
      return {};
    case Life::watched:
      return fmt::format("rank {} is here already (from {}); no two processes may have the same rank", rank,
                         member.from);
    case Life::ended:
      return fmt::format("rank {} has left this run already; it cannot come back", rank);
    case Life::lost:
    case Life::dead:
      break;
  }
  return fmt::format("rank {} of this run has died; it cannot come back", rank);
}

void Roster::watch(int rank, const std::string& from) { members_[rank] = {.life = Life::watched, .from = from}; }

StoreNews Roster::farewell(int rank) {
  members_[rank].life = Life::ended;
  return {.kind = StoreNews::Kind::ended, .rank = rank};
}

void Roster::lose(int rank, int64_t now_ms, std::string_view how) {
  Member& member = members_[rank];
  if (member.life != Life::watched) return;
  member.life = Life::lost;
  member.how = how;
  member.overdue_at_ms = now_ms + kWaitForCauseMs;
}

std::optional<StoreNews> Roster::declare_dead(int rank, const std::string& how) {
  if (members_[rank].life == Life::dead) return {};
  return bury(rank, how);
}

StoreNews Roster::bury(int rank, const std::string& how) {
  members_[rank].life = Life::dead;
  members_[rank].how = how;
  return {.kind = StoreNews::Kind::died, .rank = rank, .text = how};
}

std::vector<StoreNews> Roster::overdue(int64_t now_ms) {
  std::vector<StoreNews> news;
  for (int rank = 0; rank < ranks(); ++rank) {
    if (members_[rank].life == Life::lost && members_[rank].overdue_at_ms <= now_ms)
      news.push_back(bury(rank, std::string(members_[rank].how)));
  }
  return news;
}

std::optional<int64_t> Roster::next_overdue_ms() const {
  std::optional<int64_t> next;
  for (const Member& member : members_) {
    if (member.life == Life::lost) next = std::min(next.value_or(member.overdue_at_ms), member.overdue_at_ms);
  }
  return next;
}

std::vector<StoreNews> Roster::history() const {
  std::vector<StoreNews> news;
  for (int rank = 0; rank < ranks(); ++rank) {
    if (members_[rank].life == Life::dead)
      news.push_back({.kind = StoreNews::Kind::died, .rank = rank, .text = members_[rank].how});
    if (members_[rank].life == Life::ended) news.push_back({.kind = StoreNews::Kind::ended, .rank = rank});
  }
  return news;
}

std::optional<RankStatus> Roster::fate(int rank) const {
  const Member& member = members_[rank];
  if (member.life == Life::dead) return RankStatus{.state = RankStatus::State::dead, .detail = member.how};
  if (member.life == Life::ended) return RankStatus{.state = RankStatus::State::ended};
  return {};
}

}  // namespace paceline
