#include "paceline/launch/launch_verdict.h"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/check.h"

namespace paceline {
namespace {

constexpr size_t kLastLines = 10;
constexpr size_t kLongestLine = 1000;

}  // namespace

void LaunchVerdict::add_error_line(int rank, std::string_view line) {
  std::deque<std::string>& lines = last_lines_[rank];
  lines.emplace_back(line.substr(0, kLongestLine));
  if (lines.size() > kLastLines) lines.pop_front();
}

void LaunchVerdict::add_failure(int rank, const Ending& ending) { failures_.push_back({rank, ending}); }

int LaunchVerdict::exit_code() const { return empty() ? 0 : root().ending.exit_code(); }

std::string LaunchVerdict::text(const std::string& who, bool others_were_ended) const {
  const Failure& failure = root();
  std::string text = fmt::format("{} {}{}{}\n", who, failure.ending.signal != 0 ? "was " : "", failure.ending.text(),
                                 others_were_ended ? "; the other ranks were ended" : "");
  const auto lines = last_lines_.find(failure.rank);
  if (lines == last_lines_.end()) return text;
  text += "Its last lines on standard error:\n";
  for (const std::string& line : lines->second) text += fmt::format("  {}\n", line);
  return text;
}

const LaunchVerdict::Failure& LaunchVerdict::root() const {
  CHECK_TRUE(!failures_.empty(), "no rank has failed");
  const auto own = std::ranges::find_if(failures_, [](const Failure& failure) {
    return failure.ending.signal != 0 || failure.ending.code != static_cast<int>(ExitCode::peer);
  });
  return own != failures_.end() ? *own : failures_.front();
}

}  // namespace paceline
