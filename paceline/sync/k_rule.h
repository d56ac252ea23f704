// KRule: how adaptive k finds out how many gradients make a step.
//
// A rule sees what happens and is asked when. It is pure as the policies are: no clock but the times of the events.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <memory>

#include "paceline/sync/rounds.h"

namespace paceline {

struct KBounds {
  int k_min = 1;
  int k_max = 1;
};

// settings.k_min and k_max, or max(2, ⌈M/4⌉) and ⌈5M/8⌉; never more than there are workers, k_max never below k_min.
KBounds k_bounds(const SyncSettings& settings, int party);

// settings.k, or half of the workers, rounded up; never more than there are.
int fixed_k(const SyncSettings& settings, int party);

// S² = M2/(W - W2/W) and k_e = W²/W2 of several gradients of one version.
struct GradientSpread {
  double variance = 0;         // S²
  double effective_count = 0;  // k_e
};
// Nothing can be said of one gradient, nor of gradients that are not finite: false, `spread` is untouched then.
bool spread_of(const GradientNoise& noise, GradientSpread& spread);

class KRule {
 public:
  virtual ~KRule() = default;

  virtual int k(int party) const = 0;  // gradients that are enough in any case
  virtual bool wants_noise() const { return false; }

  virtual void push(const SyncEvent& /*push*/, int64_t /*released_ns*/) {}
  virtual void leave(const SyncEvent& /*leave*/) {}
  virtual void version(uint64_t /*version*/, int64_t /*time_ns*/, int /*party*/) {}  // it has begun
  // Whether the newest version's gradients are enough by what they are.
  virtual bool noise(const SyncEvent& /*noise*/, const RoundSoFar& /*round*/) { return false; }

  virtual nlohmann::json save() const;
  virtual void load(const nlohmann::json& /*state*/) {}
};

// time, variance, fixed
std::unique_ptr<KRule> make_k_rule(const SyncSettings& settings);

}  // namespace paceline
