#include "paceline/comm/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "paceline/comm/death_text.h"
#include "paceline/comm/rank_list.h"

namespace paceline {
namespace {

// What another rank is to my operation. In the order in which an error tells of them.
enum class Role : uint8_t { dead, left, differs, late, silent, fine };

bool fatal(Role role) { return role <= Role::differs; }

// One that has my place in the order, or had it last, is in the same operation or differs. Of one that is ahead,
// nothing is known: my operation lies in its past. A message has no place in the order.
Role compare(const Operation& mine, const RankStatus& other) {
  const bool ordered = mine.sequence > 0;
  if (ordered && other.operation.sequence > mine.sequence) return Role::fine;
  if (ordered && other.operation.sequence == mine.sequence) return other.operation == mine ? Role::fine : Role::differs;
  return other.state == RankStatus::State::ended ? Role::left : Role::late;
}

// A process that is stopped shows nothing of itself. Short enough to be noticed within the time-out, long enough for a
// host where every core is taken.
bool silent(const RankStatus& other, int64_t timeout_ms) {
  return other.silent_ms > 0 && other.silent_ms >= std::min<int64_t>(timeout_ms / 2, 5000);
}

Role role_of(const Operation& mine, const RankStatus& other, int64_t timeout_ms) {
  if (mine.sequence == 0 && mine.peer != other.rank) return Role::fine;  // a message concerns its two ends
  const bool within = other.state == RankStatus::State::busy && other.operation == mine;
  switch (other.state) {
    case RankStatus::State::dead:
      return Role::dead;
    case RankStatus::State::unknown:
      return Role::silent;
    case RankStatus::State::idle:
    case RankStatus::State::busy:
      if (const Role role = compare(mine, other); role != Role::late && !(role == Role::fine && within)) return role;
      return silent(other, timeout_ms) ? Role::silent : compare(mine, other);
    case RankStatus::State::ended:
      return compare(mine, other);
  }
  return Role::silent;
}

bool at_work(const RankStatus& other, int64_t timeout_ms) {
  return other.chore != Chore::none && other.chore_ms / kChoreTimeouts < timeout_ms;
}

// Whether a rank in this role may be given up after `waited_ms`.
bool exhausted(Role role, int64_t waited_ms, const RankStatus& other, int64_t timeout_ms) {
  if (role == Role::late && at_work(other, timeout_ms)) return false;
  const bool still_excused = role == Role::late && other.chore == Chore::none && other.since_work_ms < timeout_ms;
  const bool was_at_work = role == Role::silent && (other.chore != Chore::none || other.since_work_ms < timeout_ms);
  return waited_ms >= timeout_ms && !still_excused && !(was_at_work && other.silent_ms < timeout_ms);
}

std::string seconds(int64_t ms) { return fmt::format("{:.1f} s", static_cast<double>(ms) * 1e-3); }

// Ranks that do the same, told together.
struct Behaviour {
  std::vector<int> ranks;
  const RankStatus* one = nullptr;
  int64_t shortest_ms = 0;
  int64_t longest_ms = 0;

  void add(const RankStatus& status) {
    shortest_ms = one == nullptr ? status.for_ms : std::min(shortest_ms, status.for_ms);
    longest_ms = one == nullptr ? status.for_ms : std::max(longest_ms, status.for_ms);
    if (one == nullptr) one = &status;
    ranks.push_back(status.rank);
  }
  std::string duration() const {
    return (seconds(shortest_ms) == seconds(longest_ms) ? "" : "up to ") + seconds(longest_ms);
  }
};

std::string tell_dead(const Behaviour& them) {
  std::string text = death_text(rank_list(them.ranks), them.one->detail);
  if (them.one->operation.verb != Verb::none) text += fmt::format(", last seen in {}", to_text(them.one->operation));
  return text;
}

std::string tell_left(const Behaviour& them) {
  if (them.one->operation.verb == Verb::none)
    return fmt::format("{} left the group without any operation", rank_list(them.ranks));
  return fmt::format("{} left the group after {}", rank_list(them.ranks), to_text(them.one->operation));
}

std::string tell_late(const Behaviour& them) {
  const std::string have = fmt::format("{} {}", rank_list(them.ranks), them.ranks.size() == 1 ? "has" : "have");
  if (them.one->chore != Chore::none)
    return fmt::format("{} not arrived (it {}, for {})", have, to_text(them.one->chore), seconds(them.one->chore_ms));
  if (them.one->state == RankStatus::State::busy)
    return fmt::format("{} been in {} for {}", have, to_text(them.one->operation), them.duration());
  if (them.one->operation.verb == Verb::none) return fmt::format("{} not arrived (nor begun any operation)", have);
  return fmt::format("{} not arrived (idle for {} since {})", have, them.duration(), to_text(them.one->operation));
}

std::string tell_silent(const Behaviour& them) {
  if (them.one->silent_ms == 0) return fmt::format("nothing was heard of {}", rank_list(them.ranks));
  std::string last;
  if (them.one->operation.verb != Verb::none) last = fmt::format(", last in {}", to_text(them.one->operation));
  return fmt::format("nothing was heard of {} for {}{}: the process is stopped, or its host hangs",
                     rank_list(them.ranks), seconds(them.one->silent_ms), last);
}

std::string tell(Role role, const Behaviour& them) {
  switch (role) {
    case Role::dead:
      return tell_dead(them);
    case Role::left:
      return tell_left(them);
    case Role::differs:
      return fmt::format("{} called {}", rank_list(them.ranks), to_text(them.one->operation));
    case Role::late:
      return tell_late(them);
    case Role::silent:
    case Role::fine:
      break;
  }
  return tell_silent(them);
}

// Every rank that stands in the way. Where each does something else, more than a screen of it helps nobody.
class Findings {
 public:
  Findings(const RankStatus& mine, std::span<const RankStatus> all, int64_t timeout_ms) {
    for (const RankStatus& other : all) {
      const Role role = role_of(mine.operation, other, timeout_ms);
      // A rank that came late from its work leaves the operation as much time as any other has.
      hope_ = hope_ || ((other.rank == mine.rank || role == Role::fine) && other.since_work_ms < timeout_ms);
      if (other.rank == mine.rank || role == Role::fine) continue;
      if (!fatal(role) && !exhausted(role, mine.for_ms, other, timeout_ms)) {
        hope_ = true;
        continue;
      }
      const OperationWords words = to_words(other.operation);
      // Of ranks that differ it does not matter whether they are still in it or have given up.
      const RankStatus::State state = role == Role::late ? other.state : RankStatus::State::unknown;
      behaviours_[{role, words.sequence, words.what, words.count, state, other.detail, other.chore}].add(other);
    }
  }

  bool empty() const { return behaviours_.empty(); }
  bool hope() const { return hope_; }  // some rank that is not there yet may still come
  bool any_fatal() const {
    return std::ranges::any_of(behaviours_, [](const auto& b) { return fatal(role(b)); });
  }
  bool any(Role wanted) const {
    return std::ranges::any_of(behaviours_, [&](const auto& b) { return role(b) == wanted; });
  }

  std::string text(bool only_fatal) const {
    constexpr size_t kMost = 8;
    std::vector<std::string> parts;
    std::vector<int> more;
    for (const auto& behaviour : behaviours_) {
      if (only_fatal && !fatal(role(behaviour))) continue;
      const Behaviour& them = behaviour.second;
      if (parts.size() < kMost)
        parts.push_back(tell(role(behaviour), them));
      else
        more.insert(more.end(), them.ranks.begin(), them.ranks.end());
    }
    if (!more.empty()) parts.push_back(fmt::format("and likewise {}", rank_list(more)));
    return fmt::format("{}", fmt::join(parts, ", "));
  }

 private:
  using Key = std::tuple<Role, uint64_t, uint64_t, uint64_t, RankStatus::State, std::string, Chore>;
  static Role role(const std::pair<const Key, Behaviour>& behaviour) { return std::get<Role>(behaviour.first); }

  bool hope_ = false;
  std::map<Key, Behaviour> behaviours_;
};

}  // namespace

void RankStatus::set_work(const StatusCell::Life& life, int64_t now_ns) {
  const auto since_ms = [&](int64_t at_ns) { return std::max<int64_t>((now_ns - at_ns) / 1'000'000, 0); };
  chore = life.chore;
  chore_ms = life.chore == Chore::none ? 0 : since_ms(life.chore_since_ns);
  since_work_ms = life.worked_until_ns == 0 ? kLongAgoMs : since_ms(life.worked_until_ns);
  if (life.chore != Chore::none) since_work_ms = 0;
}

std::optional<Excuse> find_excuse(const RankStatus& mine, std::span<const RankStatus> all, int64_t timeout_ms) {
  std::optional<Excuse> best;
  for (const RankStatus& other : all) {
    if (other.rank == mine.rank || role_of(mine.operation, other, timeout_ms) != Role::late) continue;
    if (exhausted(Role::late, kLongAgoMs, other, timeout_ms)) continue;
    if (!best || other.since_work_ms < best->since_work_ms)
      best = Excuse{.since_work_ms = other.since_work_ms, .direct = other.chore != Chore::none};
  }
  return best;
}

std::optional<std::string> diagnose(const std::string& group, const RankStatus& mine, std::span<const RankStatus> all,
                                    int64_t timeout_ms) {
  const Findings findings(mine, all, timeout_ms);
  const bool hopeless = findings.any_fatal();
  if (!hopeless && (mine.for_ms < timeout_ms || (findings.empty() && findings.hope()))) return {};

  std::string text = fmt::format("rank {}: {} in group '{}' ", mine.rank, to_text(mine.operation), group);
  if (hopeless) {
    text += fmt::format("cannot finish: {}", findings.text(true));
    if (findings.any(Role::differs))
      text += "; every rank must call the same operations in the same order with the same counts and types";
    return text;
  }
  text += fmt::format("did not finish in {}: ", seconds(mine.for_ms));
  if (findings.empty())
    return text +
           "every other rank is in it or has finished it; either the network is stuck, or the time-out is too "
           "short for so many bytes (PACELINE_TIMEOUT, in seconds)";
  text += findings.text(false);
  if (findings.any(Role::late))
    text += "; a rank that is only slow needs a longer time-out (PACELINE_TIMEOUT, in seconds)";
  return text;
}

}  // namespace paceline
