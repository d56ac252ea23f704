// The variance rule (Zhang): enough gradients are there when their mean stands out of their noise,
//   theta2·|m|² > S²/k_e,
// and at least k_min. With k_max the step comes without asking.
#pragma once

#include "paceline/sync/k_rule.h"

namespace paceline {

class VarianceRule : public KRule {
 public:
  explicit VarianceRule(const SyncSettings& settings) : settings_(settings) {}
  int k(int party) const override { return k_bounds(settings_, party).k_max; }
  bool wants_noise() const override { return true; }
  bool noise(const SyncEvent& noise, const RoundSoFar& round) override;

 private:
  SyncSettings settings_;
};

}  // namespace paceline
