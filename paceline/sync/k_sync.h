// k-sync: a step of the first k gradients of a version; late ones are merged as the settings say.
#pragma once

#include "paceline/sync/rounds.h"

namespace paceline {

class KSyncPolicy : public RoundsPolicy {
 public:
  explicit KSyncPolicy(const SyncSettings& settings);
  int k() const override;

 protected:
  bool complete(const RoundSoFar& round) const override;
};

}  // namespace paceline
