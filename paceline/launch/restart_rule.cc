#include "paceline/launch/restart_rule.h"

#include <algorithm>

#include "paceline/core/error.h"

namespace paceline {
namespace {

constexpr ExitCode kFinal[] = {ExitCode::usage, ExitCode::recipe, ExitCode::data, ExitCode::training,
                               ExitCode::interrupted};

}  // namespace

bool RestartRule::may_help(const Ending& ending) {
  if (!ending.lost.empty()) return false;
  if (ending.signal != 0) return true;
  return std::ranges::find(kFinal, static_cast<ExitCode>(ending.code)) == std::end(kFinal);
}

bool RestartRule::may_start_rank(int rank, const Ending& ending) const {
  const auto found = of_rank_.find(rank);
  return may_help(ending) && (found == of_rank_.end() ? 0 : found->second) < most_;
}

bool RestartRule::may_start_all(const Ending& root) const { return may_help(root) && of_all_ < most_; }

int RestartRule::starts(int rank) const {
  const auto found = of_rank_.find(rank);
  return of_all_ + (found == of_rank_.end() ? 0 : found->second);
}

}  // namespace paceline
