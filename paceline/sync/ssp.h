// Stale Synchronous Parallel: every gradient is applied on arrival; a worker waits while it has finished more than
// `staleness` steps more than the slowest live one. A worker that joins begins at the slowest one's count.
//
// Rates may be lowered by the gradient's staleness (settings.penalty).
#pragma once

#include <optional>

#include "paceline/sync/tracked_policy.h"

namespace paceline {

class SspPolicy : public TrackedPolicy {
 public:
  explicit SspPolicy(const SyncSettings& settings);

 protected:
  SspPolicy(std::string name, const SyncSettings& settings, std::optional<uint64_t> bound);

  void joined(const SyncEvent& join, Answer& answer) final;
  void left(const SyncEvent& leave, Answer& answer) final;
  void pushed(const SyncEvent& push, Answer& answer) final;

 private:
  void release_all_that_may(int64_t time_ns, Answer& answer);

  std::optional<uint64_t> bound_;  // none: nobody waits
};

// What is left of a rate for a gradient of this staleness.
double penalised_rate(double rate, uint64_t staleness, const SyncSettings& settings);

}  // namespace paceline
