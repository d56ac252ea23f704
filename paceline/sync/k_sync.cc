#include "paceline/sync/k_sync.h"

#include "paceline/sync/k_rule.h"

namespace paceline {

KSyncPolicy::KSyncPolicy(const SyncSettings& settings) : RoundsPolicy("k_sync", settings, settings.merge) {}

int KSyncPolicy::k() const { return fixed_k(settings(), round().party); }

bool KSyncPolicy::complete(const RoundSoFar& round) const {
  return round.gradients >= fixed_k(settings(), round.party);
}

}  // namespace paceline
