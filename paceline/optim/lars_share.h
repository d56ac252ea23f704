// The share of its norm by which LARS moves a layer in a step, before momentum: rate · eta. Whoever writes
// optimizer.name = "lars" into a recipe for SGD has a rate that is a hundred times too low for the usual eta, and a run
// that learns next to nothing without a word.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>

namespace paceline {

// What to tell whoever trains with a share that hardly moves anything.
inline std::optional<std::string> warning_of_lars_share(double highest_rate, double eta) {
  constexpr double kSmall = 1e-3;  // published recipes: 0.0024 (Lu) to 0.5 (Mikami)
  if (const double share = highest_rate * eta; share < kSmall)
    return fmt::format(
        "optimizer.eta: LARS will move a layer by {:.2g} of its norm in a step at the most (rate {:g} times eta {:g}); "
        "0.01 to 0.06 is usual (docs/large_batches.md)",
        share, highest_rate, eta);
  return std::nullopt;
}

}  // namespace paceline
