#include "paceline/train/finite_model.h"

#include <fmt/format.h>

#include <vector>

#include "paceline/collectives/sum_over_ranks.h"
#include "paceline/precision/finite_check.h"
#include "paceline/train/divergence.h"

namespace paceline {

std::string first_not_finite(const Model& model) {
  for (const auto& named : model.named_parameters())
    if (count_not_finite(named.value().detach()) > 0) return named.key();
  for (const auto& named : model.named_buffers())
    if (named.value().is_floating_point() && count_not_finite(named.value()) > 0) return named.key();
  return "";
}

// A checkpoint of weights that are not finite would push out one that can be used.
void require_finite(const Model& model, StaleSum* sums, Group& group, const RunPlace& place) {
  std::string first = first_not_finite(model);
  if (first.empty() && sums && !sums->all_finite()) first = "a gradient that is under way";
  std::vector<int64_t> bad = {first.empty() ? 0 : 1};
  sum_over_ranks(group, view(bad));
  if (bad[0] == 0) return;
  throw DivergenceError(
      fmt::format("step {} (epoch {:.4g}): {} is not finite after the update: the run diverged, and no "
                  "checkpoint was written of it; {}",
                  place.step, place.epoch, first.empty() ? "what another rank has" : first, kAgainstDivergence));
}

}  // namespace paceline
