#include "paceline/sync/k_rule.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "paceline/core/check.h"
#include "paceline/sync/time_rule.h"
#include "paceline/sync/variance_rule.h"

namespace paceline {
namespace {

// One gradient has no spread: with k = 1 the noise would never be measured, and the time rule would stay at k = 1.
constexpr int kLeastForSpread = 2;

int ceil_of(int numerator, int denominator) { return (numerator + denominator - 1) / denominator; }

// The peer of the others: k as in k-sync.
class FixedRule : public KRule {
 public:
  explicit FixedRule(const SyncSettings& settings) : settings_(settings) {}
  int k(int party) const override { return fixed_k(settings_, party); }

 private:
  SyncSettings settings_;
};

}  // namespace

KBounds k_bounds(const SyncSettings& settings, int party) {
  const int most = std::max(1, party);
  const int k_min =
      std::clamp(settings.k_min > 0 ? settings.k_min : std::max(kLeastForSpread, ceil_of(party, 4)), 1, most);
  const int k_max = std::clamp(settings.k_max > 0 ? settings.k_max : ceil_of(5 * party, 8), k_min, most);
  return {.k_min = k_min, .k_max = k_max};
}

int fixed_k(const SyncSettings& settings, int party) {
  return std::clamp(settings.k > 0 ? settings.k : ceil_of(party, 2), 1, std::max(1, party));
}

bool spread_of(const GradientNoise& noise, GradientSpread& spread) {
  const double w = noise.samples, w2 = noise.samples_squared;
  const double effective_count = w * w / w2;
  constexpr double kOneGradient = 1 + 1e-9;  // of many samples W² and W2 are rounded
  if (!(effective_count > kOneGradient)) return false;
  const double variance = noise.spread / (w - w2 / w);
  if (!std::isfinite(variance) || !std::isfinite(noise.mean_norm2) || !std::isfinite(effective_count)) return false;
  spread = {.variance = variance, .effective_count = effective_count};
  return true;
}

nlohmann::json KRule::save() const { return nlohmann::json::object(); }

std::unique_ptr<KRule> make_k_rule(const SyncSettings& settings) {
  if (settings.rule == "time") return std::make_unique<TimeRule>(settings);
  if (settings.rule == "variance") return std::make_unique<VarianceRule>(settings);
  CHECK_EQ(settings.rule, "fixed");
  return std::make_unique<FixedRule>(settings);
}

}  // namespace paceline
