// Adaptive k: k-sync whose k follows the run. A rule says how many gradients make a step (k_rule.h); late ones are
// merged as the settings say, by default into the momentum (progressive momentum).
#pragma once

#include <memory>

#include "paceline/sync/k_rule.h"
#include "paceline/sync/rounds.h"

namespace paceline {

class AdaptiveKPolicy : public RoundsPolicy {
 public:
  explicit AdaptiveKPolicy(const SyncSettings& settings);
  bool wants_noise() const override { return rule_->wants_noise(); }
  int k() const override { return rule_->k(round().party); }

 protected:
  bool complete(const RoundSoFar& round) const override { return round.gradients >= rule_->k(round.party); }
  void watch_push(const SyncEvent& push, int64_t released_ns) override { rule_->push(push, released_ns); }
  void watch_leave(const SyncEvent& leave) override { rule_->leave(leave); }
  void watch_version(int64_t time_ns) override { rule_->version(version(), time_ns, round().party); }
  bool watch_noise(const SyncEvent& noise) override { return rule_->noise(noise, round()); }
  void save_more(nlohmann::json& state) const override;
  void load_more(const nlohmann::json& state) override;

 private:
  std::unique_ptr<KRule> rule_;
};

}  // namespace paceline
