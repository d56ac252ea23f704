// DropWorker: BSP over the fastest workers. A step of the first ⌈(1-r)M⌉ gradients of a version; what comes later is
// dropped, and its worker goes on with the newest version.
#pragma once

#include "paceline/sync/rounds.h"

namespace paceline {

class DropWorkerPolicy : public RoundsPolicy {
 public:
  explicit DropWorkerPolicy(const SyncSettings& settings);
  int k() const override;

 protected:
  bool complete(const RoundSoFar& round) const override;
};

}  // namespace paceline
