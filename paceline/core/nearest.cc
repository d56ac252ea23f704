#include "paceline/core/nearest.h"

#include <fmt/format.h>

#include <algorithm>

namespace paceline {
namespace {

// Optimal string alignment. Returns `limit` where the distance is not below it.
size_t edit_distance(std::string_view a, std::string_view b, size_t limit) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) >= limit) return limit;
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1, least_before = 0; i <= a.size(); ++i) {
    size_t least = d[i][0];
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      least = std::min(least, d[i][j]);
    }
    if (std::min(least, least_before) >= limit) return limit;  // each row follows from the two before it
    least_before = least;
  }
  return std::min(d[a.size()][b.size()], limit);
}

// "cos" for "cosine". Two letters begin too many words.
std::optional<std::string> only_one_that_begins_with(std::string_view word,
                                                     const std::vector<std::string>& candidates) {
  const auto begins = [&](const std::string& candidate) { return candidate.starts_with(word); };
  if (word.size() < 3 || std::ranges::count_if(candidates, begins) != 1) return std::nullopt;
  return *std::ranges::find_if(candidates, begins);
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate, best_distance);
    if (distance < best_distance && distance < std::max(word.size(), candidate.size())) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best ? best : only_one_that_begins_with(word, candidates);
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const auto meant = nearest(word, candidates);
  return meant ? fmt::format("; did you mean '{}'?", *meant) : "";
}

}  // namespace paceline
