#include "paceline/core/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace paceline {
namespace {

// Optimal string alignment. Returns `limit` where the distance is not below it.
size_t edit_distance(std::string_view a, std::string_view b, size_t limit) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) >= limit) return limit;
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);  // of the matrix of both words
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1, least_before = 0; i <= a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    size_t least = row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min(std::min(last[j], row[j - 1]) + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
      least = std::min(least, row[j]);
    }
    if (std::min(least, least_before) >= limit) return limit;  // each row follows from the two before it
    least_before = least;
  }
  return std::min(row.back(), limit);
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
