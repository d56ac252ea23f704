// Elastic averaging SGD: workers train alone and push their parameters every few steps. Worker and centre move towards
// each other by rho = elasticity / live workers of their distance. There are no steps here, so the version stays 0.
#pragma once

#include "paceline/sync/tracked_policy.h"

namespace paceline {

class EasgdPolicy : public TrackedPolicy {
 public:
  explicit EasgdPolicy(const SyncSettings& settings);

 protected:
  void joined(const SyncEvent& join, Answer& answer) override;
  void left(const SyncEvent& leave, Answer& answer) override;
  void pushed(const SyncEvent& push, Answer& answer) override;
};

}  // namespace paceline
