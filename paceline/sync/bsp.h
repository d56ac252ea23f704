// Bulk Synchronous Parallel: a step of the mean of all live workers' gradients. No gradient is ever late; the slowest
// worker sets the pace.
#pragma once

#include "paceline/sync/rounds.h"

namespace paceline {

class BspPolicy : public RoundsPolicy {
 public:
  explicit BspPolicy(const SyncSettings& settings);
  int k() const override { return round().party; }
  bool waits_for_all() const override { return true; }

 protected:
  bool complete(const RoundSoFar& round) const override;
};

}  // namespace paceline
