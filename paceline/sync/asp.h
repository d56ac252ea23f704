// Asynchronous Parallel: every gradient is applied on arrival, nobody waits. SSP without a bound.
#pragma once

#include "paceline/sync/ssp.h"

namespace paceline {

class AspPolicy : public SspPolicy {
 public:
  explicit AspPolicy(const SyncSettings& settings);
};

}  // namespace paceline
