#include "paceline/sync/variance_rule.h"

namespace paceline {

bool VarianceRule::noise(const SyncEvent& noise, const RoundSoFar& round) {
  // A report may come after the step of its version.
  if (noise.version != round.version || round.gradients < k_bounds(settings_, round.party).k_min) return false;
  GradientSpread spread;
  if (!spread_of(noise.noise, spread)) return false;
  return settings_.theta2 * noise.noise.mean_norm2 > spread.variance / spread.effective_count;
}

}  // namespace paceline
