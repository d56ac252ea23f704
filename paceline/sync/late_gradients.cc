#include "paceline/sync/late_gradients.h"

#include <cmath>

#include "paceline/core/check.h"

namespace paceline {

Decision decide_late(const LateGradient& late, const std::string& merge, double momentum, int history) {
  const double decay = std::pow(momentum, static_cast<double>(late.staleness));
  Decision decision = {
      .kind = Decision::Kind::drop, .worker = late.worker, .version = late.version, .samples = late.samples};
  if (merge == "additive") {
    decision.kind = Decision::Kind::merge;
    decision.factor = decay * (static_cast<double>(late.samples) / late.all_samples);
  } else if (merge == "zhang") {
    decision.kind = Decision::Kind::merge;
    decision.factor = decay / late.gradients_of_step;
  } else if (merge == "mean") {
    if (late.staleness > static_cast<uint64_t>(history)) return decision;
    decision.kind = Decision::Kind::merge_mean;
    decision.factor = decay;
  } else {
    CHECK_EQ(merge, "drop");
  }
  return decision;
}

}  // namespace paceline
